"""Rows some of whose values are missing: NaN, masked values, or what a mask of booleans names.

May import: values, run, apply, numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.apply.model_rows import as_source
from vmfa_dask.em.rows import Rows
from vmfa_dask.run.row_source import RowSource, read_ahead
from vmfa_dask.values import Mixture

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class RowsWithGaps:
    """Rows and which of their values are missing.

    Parameters
    ----------
    source : RowSource
        The rows; NaN is missing.
    masks : tuple of array_like
        Booleans, true where a value is missing: of shape (D,) for all rows alike, or (N, ...) with D values per row.
    """

    source: RowSource
    masks: tuple[Any, ...]

    def blocks(
        self, block_rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[slice, Rows, Mask]]:
        """A range of the rows, row block by row block.

        Parameters
        ----------
        block_rows : int
            Rows per block.
        start, stop : int, optional
            The range; by default all rows.

        Yields
        ------
        part : slice
            Numbers of the rows in this block.
        block : (n, D) array
            The rows as they are stored.
        missing : (n, D) bool array
            Where values are missing; all others are finite.

        Raises
        ------
        ValueError
            At an infinite value, naming the row and the feature.
        """
        for first, block in read_ahead(self.source, start, self.source.n_rows if stop is None else stop, block_rows):
            part = slice(first, first + len(block))
            missing = np.isnan(block) if block.dtype.kind == "f" else np.zeros(block.shape, bool)
            for mask in self.masks:
                missing |= mask if mask.ndim == 1 else np.asarray(mask[part]).reshape(block.shape)
            infinite = ~(missing | np.isfinite(block))
            if infinite.any():
                row, feature = (int(index[0]) for index in np.nonzero(infinite))
                raise ValueError(
                    f"{self.source.describe(first + row)}, feature {feature}: found {block[row, feature]}, expected a "
                    "finite number, or NaN where a value is missing"
                )
            yield part, block, missing


def rows_with_gaps(
    mixture: Mixture, x: Any, missing: Any = None, array: str | None = None, sample_dim: str | None = None
) -> RowsWithGaps:
    """Open rows with missing values for a model.

    Parameters
    ----------
    mixture : Mixture
        The model, which the rows must fit.
    x : array_like of shape (n, D) or (n, *feature_shape)
        Rows in any form that a fit takes; a masked array of NumPy too.
    missing : array_like of bool, optional
        Of the shape of `x`, or of one row for all rows alike.
    array, sample_dim : str, optional
        As in `as_source`.

    Returns
    -------
    RowsWithGaps

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        As `as_source`, and when `missing` has another shape or dtype.
    """
    hidden: tuple[Any, ...] = ()
    if isinstance(x, np.ma.MaskedArray):
        hidden, x = (np.ma.getmaskarray(x),), x.data
    source = as_source(mixture, x, array, sample_dim)
    if missing is not None:
        hidden = (*hidden, _checked_mask(mixture, source, missing))
    return RowsWithGaps(source, hidden)


def _checked_mask(mixture: Mixture, source: RowSource, missing: Any) -> Any:
    """The mask as (D,) or (N, ...); one that is not in memory is left where it is."""
    mask = missing if hasattr(missing, "dtype") and hasattr(missing, "shape") else np.asarray(missing)
    if mask.dtype != bool:
        raise ValueError(f"missing: found dtype {mask.dtype}, expected booleans, true where a value is missing")
    rows = ((mixture.n_features,), mixture.feature_shape)
    if mask.shape in rows:
        return np.asarray(mask).reshape(-1)
    if mask.shape[:1] != (source.n_rows,) or mask.shape[1:] not in rows:
        expected = " or ".join(map(str, dict.fromkeys((*rows, *((source.n_rows, *shape) for shape in rows)))))
        raise ValueError(f"missing: found shape {mask.shape}, expected {expected}")
    return mask
