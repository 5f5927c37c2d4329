"""Held-out rows of a fit: a share of its own rows, or others in any form. May import: run, store, service."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.run.held_out import MOST_BYTES, HeldOutRows
from vmfa_dask.run.row_source import RowSource, n_features_of, read_ahead, refuse_non_finite
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.validation import Validation, automatic_interval
from vmfa_dask.service.options import Options, is_share
from vmfa_dask.service.sources import opened_rows
from vmfa_dask.store.gate import is_in_a_store
from vmfa_dask.store.places import locate

logger = logging.getLogger(__name__)

_BLOCK_BYTES = 2**24


def held_out_rows(options: Options, asked: Mapping[str, Any], rows: RowSource) -> HeldOutRows | None:
    """Which rows of the data are left out of the training.

    Parameters
    ----------
    options : Options
        Of the fit.
    asked : mapping
        Settings that the call asks for, with or without `random_state`.
    rows : RowSource
        All rows.

    Returns
    -------
    HeldOutRows or None
        None where `validation` is no share.

    Raises
    ------
    ValueError
        If the share comes to less than a row.
    """
    if not is_share(options.validation):
        return None
    return HeldOutRows.share_of(rows, options.validation, asked.get("random_state", 0))


def make_validation(
    options: Options,
    selection: Mapping[str, Any],
    rows: RowSource,
    settings: Settings,
    held_out: HeldOutRows | None,
    client: Any = None,
) -> Validation | None:
    """The held-out rows of a fit, and how often they are evaluated.

    Parameters
    ----------
    options : Options
        Of the fit.
    selection : mapping
        `array`, `sample_dim` and `missing_chunks` of the call.
    rows : RowSource
        The training rows.
    settings : Settings
        Of the run.
    held_out : HeldOutRows or None
        Rows of the data that are left out.
    client : distributed.Client, optional
        Whose workers compute Dask data.

    Returns
    -------
    Validation or None
        None where nothing is held out.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError, OSError
        Naming what is wrong with the rows.
    """
    if options.validation is None:
        return None
    source: HeldOutRows | NDArray[Any] = held_out or _read(options, selection, rows, settings, client)
    n_held = source.n_held if isinstance(source, HeldOutRows) else len(source)
    every = options.validation_every or automatic_interval(rows, settings, n_held)
    logger.info("validation: %d rows, evaluated every %d passes of training", n_held, every)
    return Validation(source, every, options.patience)


def validation_of_driver(options: Options) -> Any:
    """The argument `validation` as the driver of a detached run takes it.

    Parameters
    ----------
    options : Options
        Of the fit.

    Returns
    -------
    float, str or None

    Raises
    ------
    ValueError
        For rows that another process cannot open.
    """
    given = options.validation
    if given is None or is_share(given):
        return given
    if isinstance(given, str | os.PathLike) and is_in_a_store(given):
        return locate(given)
    raise ValueError("detach=True: expected validation as a share of the rows, or as the path or URL of a Zarr store")


def _read(
    options: Options, selection: Mapping[str, Any], rows: RowSource, settings: Settings, client: Any
) -> NDArray[Any]:
    """Rows in any form, as an array of the dtype of the training rows; a sample where there are very many."""
    data = options.validation
    named = selection if is_in_a_store(data) or hasattr(data, "dims") else {}
    with opened_rows(data, **named, client=client, scratch=options.scratch, label="validation") as held:
        width, layout = n_features_of(rows), rows.feature_shape
        shape = held.feature_shape
        if n_features_of(held) != width or (shape != layout and (width,) not in (shape, layout)):
            raise ValueError(
                f"validation: rows of shape {shape}, expected {layout} as the training rows, or ({width},)"
            )
        n_held = min(held.n_rows, max(1, MOST_BYTES // (width * max(held.dtype.itemsize, rows.dtype.itemsize))))
        sample, parts = HeldOutRows(held.n_rows, n_held, settings.random_state), []
        for first, block in read_ahead(held, 0, held.n_rows, max(1, _BLOCK_BYTES // (width * held.dtype.itemsize))):
            refuse_non_finite(held, first, block)
            taken = block[sample.within(first, first + len(block)) - first]
            parts.append(_converted(taken, rows.dtype))
    return np.concatenate(parts)


def _converted(block: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Rows in the dtype of the training rows, for which kernels are compiled; whole numbers must stay what they are."""
    with np.errstate(invalid="ignore", over="ignore"):
        converted = block.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(converted, block):
        raise ValueError(
            f"validation: values of dtype {block.dtype.name} that {dtype.name}, the dtype of the training rows, cannot "
            "hold; expected rows in the same units and of the same dtype"
        )
    return converted
