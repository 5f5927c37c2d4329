"""Defaults that depend on the data: what suits its width and its number of rows, where nothing was asked for.

May import: em.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from vmfa_dask.run.settings import Settings

# Attempts of a pilot: one of them finds what all need, and each costs some passes over a sample.
_PILOT_ATTEMPTS = 3
# Rows of a sample, at least and per component.
_FEWEST_ROWS, _ROWS_PER_COMPONENT = 10_000, 100
# Work of one pass over the sample, and its size, up to which the pilot costs little next to a run.
_MOST_PRODUCTS, _MOST_VALUES = 2e8, 1e7

# Chains of AFK-MC² that one task runs, about: their time grows with the square of C. 10,000 chains on patches of
# 8 x 8 x 3 bytes took 8 s of CPU, grouping their seeds included; a pass over 500,000 rows took 1.9 s on two cores.
_MOST_CHAINS = 10_000
# Features from which on rows are screened: fewer have little to save beside what each candidate costs once.
_WIDE = 1024
# Tolerance of warm-up in the usual one, where it begins with near neighbours (the paper's for its largest models).
_COARSE = 10


def suited_to_data(settings: Settings, asked: Collection[str], n_rows: int, n_features: int) -> Settings:
    """Settings whose defaults suit the data; choices of the user stay.

    Fewer factors than features; screening for wide rows; for few components a pilot on a sample of the rows in place of
    AFK-MC², for very many ones uniform seeds and less warm-up.

    Parameters
    ----------
    settings : Settings
        The run.
    asked : collection of str
        Names of the settings that the user has chosen.
    n_rows, n_features : int
        N and D.

    Returns
    -------
    Settings
    """
    suited: dict[str, Any] = {}
    if "n_factors" not in asked:
        suited["n_factors"] = min(settings.n_factors, max(n_features - 1, 0))
    if "screening" not in asked:
        suited["screening"] = settings.search == "guided" and n_features >= _WIDE
    settings = replace(settings, **suited)
    cells = "locality" in asked and settings.locality
    if "init_params" not in asked and not cells and suits_pilot(settings, n_rows, n_features):
        settings = replace(settings, init_params="pilot")
    if settings.starts_from_cells:
        settings = _suited_to_many_components(settings, asked)
    if "n_init" not in asked and settings.init_params == "pilot":
        settings = replace(settings, n_init=_PILOT_ATTEMPTS)
    return settings


def _suited_to_many_components(settings: Settings, asked: Collection[str]) -> Settings:
    """Uniform seeds where chains would keep one task busy while all others wait, and less warm-up."""
    suited: dict[str, Any] = {}
    if "init_params" not in asked and settings.n_components > _MOST_CHAINS:
        suited["init_params"] = "uniform"
    if "warmup_tol" not in asked:
        suited["warmup_tol"] = _COARSE * settings.warmup_tol
    return replace(settings, **suited)


def sample_size(settings: Settings, n_rows: int) -> int:
    """Rows of the sample on which a pilot trains.

    Parameters
    ----------
    settings : Settings
        The run.
    n_rows : int
        N.

    Returns
    -------
    int
    """
    return min(n_rows, max(_FEWEST_ROWS, _ROWS_PER_COMPONENT * settings.n_components))


def suits_pilot(settings: Settings, n_rows: int, n_features: int) -> bool:
    """Whether the model is small enough for a pilot on a sample to cost little.

    Parameters
    ----------
    settings : Settings
        The run.
    n_rows, n_features : int
        N and D.

    Returns
    -------
    bool
    """
    values = sample_size(settings, n_rows) * n_features
    return values <= _MOST_VALUES and values * settings.n_components * (settings.n_factors + 2) <= _MOST_PRODUCTS
