"""Missing values: what they are expected to be given the others, and the density of the others alone.

May import: values, run, store, apply, numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.apply.calls import described_call, described_mask, described_rows
from vmfa_dask.apply.labelled import COMPLETED, OBSERVED_LOG_DENSITY, per_row
from vmfa_dask.apply.missing import RowsWithGaps, rows_with_gaps
from vmfa_dask.apply.observed import ObservedParts
from vmfa_dask.apply.parameters import ModelParameters
from vmfa_dask.apply.row_functions import rows_column
from vmfa_dask.apply.streaming import check_apart, rows_per_write
from vmfa_dask.run.row_source import RowSource
from vmfa_dask.store.gate import is_labelled
from vmfa_dask.store.outputs import open_results
from vmfa_dask.values import Float64, Mixture


class Completion(ModelParameters):
    """What a `MixtureModel` does with rows some of whose values are missing."""

    def complete(
        self,
        x: Any,
        missing: Any = None,
        array: str | None = None,
        sample_dim: str | None = None,
        out: Any = None,
    ) -> Any:
        """Fill in missing values with their expectation given the observed values of the same row.

        This is E[x_m | x_o] under the mixture, exact over all components: the prediction of least squared error, if the
        rows are as the model says. Few factors for many strongly correlated features make it too certain: then gaps
        among observed features are filled better than gaps far from all of them (docs/results/completion.md).

        Parameters
        ----------
        x : array_like of shape (n, D) or (n, *feature_shape)
            Rows in the units of the training data, in any form that a fit takes. NaN is missing, and so are masked
            values of NumPy.
        missing : array_like of bool, optional
            True where a value is missing, whatever `x` holds there: of the shape of `x`, or of one row where all rows
            miss the same. It adds to NaN and masked values.
        array : str, optional
            Path of the array in a Zarr group, or name of the variable in a Dataset.
        sample_dim : str, optional
            Dimension of an xarray variable that counts samples; needed unless the name of the first one says so.
        out : str, path or zarr.Array, optional
            Where rows that do not fit memory go, as in `score_samples`: the same call continues after an interruption.

        Returns
        -------
        float64 array of the shape of `x`
            Observed values as they are. A row without missing values is unchanged, one without observed values is the
            mean of the mixture. With `out` a `zarr.Array`. For an object of xarray without `missing` and `out` a
            DataArray with the labels of `x`, lazy if `x` is.

        Raises
        ------
        TypeError, FileNotFoundError
            When `x` is nothing that can be rows, or nothing is stored there.
        FileExistsError, OSError
            When something else is stored at `out`, or it cannot be written.
        ValueError
            When rows or mask do not fit the model, an observed value is infinite, or the observed values of a row are
            so far from every component that float64 holds no density of them.

        Examples
        --------
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([1.0], [[0.0, 10.0]], [[[1.0, 2.0]]], [[1.0, 1.0]])
        >>> model.complete([[1.0, float("nan")]])
        array([[ 1., 11.]])
        """
        if is_labelled(x) and missing is None and out is None:
            return per_row(_completed, self, x, array, sample_dim, COMPLETED)
        return _complete(self.mixture, rows_with_gaps(self.mixture, x, missing, array, sample_dim), out)

    def score_observed(
        self, x: Any, missing: Any = None, array: str | None = None, sample_dim: str | None = None
    ) -> Float64:
        """Log-density of the observed values of each row.

        Densities of different features have different units: compare rows that miss the same values.

        Parameters
        ----------
        x, missing, array, sample_dim
            Rows with missing values, as in `complete`.

        Returns
        -------
        (n,) float64 array
            log p(x_o) in nats: as `score_samples` where nothing is missing, 0 where everything is, −inf where it is
            below what float64 holds. For an object of xarray without `missing` a DataArray, as in `score_samples`.

        Raises
        ------
        TypeError, FileNotFoundError
            As `complete`.
        ValueError
            When rows or mask do not fit the model, or an observed value is infinite.

        Examples
        --------
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([1.0], [[0.0, 10.0]], [[[1.0, 2.0]]], [[1.0, 1.0]])
        >>> model.score_observed([[1.0, float("nan")], [float("nan"), float("nan")]]).round(3)
        array([-1.516,  0.   ])
        """
        if is_labelled(x) and missing is None:
            return per_row(_scored, self, x, array, sample_dim, OBSERVED_LOG_DENSITY)
        return _score(self.mixture, rows_with_gaps(self.mixture, x, missing, array, sample_dim))


def _completed(model: ModelParameters, rows: RowSource) -> Any:
    return _complete(model.mixture, RowsWithGaps(rows, ()), None)


def _scored(model: ModelParameters, rows: RowSource) -> Float64:
    return _score(model.mixture, RowsWithGaps(rows, ()))


def _complete(mixture: Mixture, rows: RowsWithGaps, out: Any) -> Any:
    parts, source = ObservedParts(mixture), rows.source
    if out is None:
        return _completed_range(parts, rows, 0, source.n_rows)
    check_apart(out, source)
    masks = [described_mask(mask) for mask in rows.masks]
    call = described_call(mixture, "complete", {}, rows=described_rows(source), missing=masks)
    column = rows_column(source.feature_shape)
    output = open_results(out, {"completed": column}, source.n_rows, call)
    return output.fill(
        rows_per_write(parts.block_rows, column.row_bytes),
        lambda start, stop: {"completed": _completed_range(parts, rows, start, stop)},
    )


def _completed_range(parts: ObservedParts, rows: RowsWithGaps, start: int, stop: int) -> Float64:
    """Rows ``start:stop`` without gaps."""
    completed = np.empty((stop - start, *rows.source.feature_shape))
    for part, block, gaps in rows.blocks(parts.block_rows, start, stop):
        values = completed[part.start - start : part.stop - start].reshape(block.shape)
        values[...] = block
        some = np.flatnonzero(gaps.any(axis=1))
        if len(some):
            scores, expected = parts.expectations(block[some], gaps[some])
            if np.isneginf(scores).any():
                lost = part.start + int(some[np.isneginf(scores)][0])
                raise ValueError(
                    f"{rows.source.describe(lost)}: observed values are so far from every component that float64 "
                    "holds no density of them, and nothing follows from them; check their units"
                )
            values[some] = np.where(gaps[some], expected, values[some])
    return completed


def _score(mixture: Mixture, rows: RowsWithGaps) -> Float64:
    parts = ObservedParts(mixture)
    scores = np.empty(rows.source.n_rows)
    for part, block, gaps in rows.blocks(parts.block_rows):
        scores[part] = parts.scores(block, gaps)
    return scores
