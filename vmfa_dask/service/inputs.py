"""What a call hands in beside its rows: settings as keywords, a start. May import: values, em, apply."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.em.rows import RowSource
from vmfa_dask.em.settings import PAPER, Settings
from vmfa_dask.em.start import Start
from vmfa_dask.values import Mixture

_FINGERPRINT_ROWS = 16
# Settings by the name of a preset, where they differ from the defaults.
PRESETS: Mapping[str, Mapping[str, Any]] = {"default": {}, "paper": PAPER}


def make_settings(**settings: Any) -> Settings:
    """Settings from keyword arguments.

    Raises
    ------
    TypeError
        Naming an unknown argument and the known ones.
    """
    known = [f.name for f in fields(Settings)]
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise TypeError(f"unknown argument {unknown[0]!r}; the settings of a run are {', '.join(known)}")
    return Settings(**settings)


def asked_settings(
    preset: str, n_components: int, n_factors: int | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """What a call asks for: its keywords that are not None, and those of its preset.

    Raises
    ------
    ValueError
        When there is no such preset.
    """
    if preset not in PRESETS:
        raise ValueError(f"preset={preset!r}: expected one of {tuple(PRESETS)}")
    named = {"n_components": n_components, "n_factors": n_factors, **settings}
    return {**PRESETS[preset], **{name: value for name, value in named.items() if value is not None}}


def given_start(start: Start | Mixture | MixtureModel | None, feature_shape: tuple[int, ...]) -> Start | None:
    """A start; parameters alone are one, and so is the model of a fit.

    Raises
    ------
    ValueError
        When it is not for rows of `feature_shape`: other features, or as many in another layout. Flat ones go with any.
    """
    if isinstance(start, MixtureModel):
        start = start.mixture
    start = Start(start) if isinstance(start, Mixture) else start
    if start is None:
        return None
    found, flat = start.mixture.feature_shape, (start.mixture.n_features,)
    if int(np.prod(feature_shape)) != flat[0] or (found != feature_shape and flat not in (found, feature_shape)):
        raise ValueError(
            f"start.mixture: it is for rows of shape {found}, and the rows of the data have the shape {feature_shape}; "
            f"expected {feature_shape} or ({int(np.prod(feature_shape))},)"
        )
    return start


def describe_rows(rows: RowSource) -> dict[str, Any]:
    """What makes data the same data: its sizes, its dtype, and a hash of some of its rows."""
    digest = hashlib.sha256()
    for row in np.unique(np.linspace(0, rows.n_rows - 1, _FINGERPRINT_ROWS).astype(np.int64)).tolist():
        digest.update(np.ascontiguousarray(rows.read(row, row + 1)).tobytes())
    return {
        "n_rows": rows.n_rows,
        "feature_shape": list(rows.feature_shape),
        "dtype": rows.dtype.name,
        "sample": digest.hexdigest()[:16],
    }
