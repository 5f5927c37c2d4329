"""What a call hands in beside its rows: settings as keywords, a start. May import: values, em, apply."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any

import numpy as np

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.em.rows import RowSource
from vmfa_dask.em.settings import Settings
from vmfa_dask.em.start import Start
from vmfa_dask.values import Mixture

_FINGERPRINT_ROWS = 16


def make_settings(**settings: Any) -> Settings:
    """Settings from keyword arguments, and defaults that depend on others.

    A number of factors that is None is 5, or 0 where the covariance type has none. A truncation that is not given is at
    most n_components, and n_components with exhaustive search, which is exact EM then.

    Raises
    ------
    TypeError
        Naming an unknown argument and the known ones.
    """
    known = [f.name for f in fields(Settings)]
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise TypeError(f"unknown argument {unknown[0]!r}; the settings of a run are {', '.join(known)}")
    plain: dict[str, Any] = {k: int(v) if isinstance(v, np.integer) else v for k, v in settings.items()}
    components = plain.get("n_components")
    if "truncation" not in plain and isinstance(components, int):  # the default must not refuse a mixture of two
        exact = plain.get("search") == "exhaustive"
        plain["truncation"] = max(1, components if exact else min(Settings.truncation, components))
    if plain.get("n_factors", 0) is None:
        plain["n_factors"] = Settings.n_factors if plain.get("covariance_type", "mfa") == "mfa" else 0
    return Settings(**plain)


def given_start(start: Start | Mixture | MixtureModel | None) -> Start | None:
    """A start; parameters alone are one, and so is the model of a fit."""
    if isinstance(start, MixtureModel):
        start = start.mixture
    return Start(start) if isinstance(start, Mixture) else start


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
