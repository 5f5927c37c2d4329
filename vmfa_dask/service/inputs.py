"""What a call hands in: settings as keywords, rows as a store or an array. May import: values, em, store."""

from __future__ import annotations

import hashlib
import os
from dataclasses import fields
from typing import Any

import numpy as np
import zarr

from vmfa_dask.em.rows import ArrayRows, RowSource, n_features_of
from vmfa_dask.em.settings import Settings
from vmfa_dask.em.start import Start
from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.places import locate
from vmfa_dask.store.rows import ZarrRows
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


def given_start(start: Start | Mixture | None) -> Start | None:
    """A start; parameters alone are one."""
    return Start(start) if isinstance(start, Mixture) else start


def open_rows(data: Any, array: str | None = None) -> RowSource:
    """Rows from a path or URL of a Zarr store, or from a NumPy array.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        Naming what was found and what is expected.
    """
    if isinstance(data, str | os.PathLike):
        return ZarrRows(locate(data), array)
    if isinstance(data, np.ndarray):
        return ArrayRows(data)
    raise TypeError(f"data: found {type(data).__name__}, expected the path or URL of a Zarr array, or a NumPy array")


def spill(rows: ArrayRows, path: str) -> ZarrRows:
    """Write rows in memory to a folder that workers in other processes see."""
    shape = (rows.n_rows, *rows.feature_shape)
    size = max(1, 2**22 // max(1, n_features_of(rows) * rows.dtype.itemsize))
    stored = zarr.create_array(
        zarr_target(path), shape=shape, dtype=rows.dtype, chunks=(size, *shape[1:]), compressors=None
    )
    stored[...] = rows.read(0, rows.n_rows).reshape(shape)
    return ZarrRows(path)


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
