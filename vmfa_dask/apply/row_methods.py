"""Methods of a model that give a result for each row: in memory, or into a store.

May import: values, run, apply, zarr.
"""

from __future__ import annotations

from functools import partial
from typing import Any, overload

import zarr

from vmfa_dask.apply.labelled import labels_of, per_row
from vmfa_dask.apply.model_rows import as_source
from vmfa_dask.apply.packed_model import PackedModel
from vmfa_dask.apply.posteriors import SparseProbabilities
from vmfa_dask.apply.row_functions import RowFunction, row_function
from vmfa_dask.apply.streaming import write_results
from vmfa_dask.run.row_source import RowSource
from vmfa_dask.values import Float64, Int64


class RowMethods(PackedModel):
    """Methods of `MixtureModel` that take rows and give a result for each."""

    def _results(
        self, method: str, options: dict[str, Any], x: Any, array: str | None, sample_dim: str | None, out: Any
    ) -> Any:
        """Arrays, labelled like rows of xarray; with `out`, the output."""
        function = row_function(self.mixture, method, options)
        if out is not None:
            return write_results(self._evaluator, function, as_source(self.mixture, x, array, sample_dim), out)
        return per_row(partial(_computed, function), self, x, array, sample_dim, labels_of(function))

    @overload
    def score_samples(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> Float64: ...
    @overload
    def score_samples(
        self, x: Any, array: str | None = None, sample_dim: str | None = None, *, out: Any
    ) -> zarr.Array[Any]: ...
    def score_samples(
        self, x: Any, array: str | None = None, sample_dim: str | None = None, *, out: Any = None
    ) -> Float64 | zarr.Array[Any]:
        """Log-density of each row.

        Parameters
        ----------
        x : array_like of shape (n, D) or (n, *feature_shape)
            Rows in the units of the training data, of any integer or float dtype, in any form that a fit takes. Rows
            that are not in memory are read row block by row block.
        array : str, optional
            Path of the array in a Zarr group, or name of the variable in a Dataset.
        sample_dim : str, optional
            Dimension of an xarray variable that counts samples; needed unless the name of the first one says so.
        out : str, path or zarr.Array, optional
            Where results that do not fit memory go: path or URL of a Zarr array to create, or one that is open for
            writing, of the right shape and any chunks (a row of whole chunks is held in memory). After an interruption
            the same call continues: the array's attributes say which rows are complete, and for which model and rows
            (of more than 64 MiB, 64 are compared).

        Returns
        -------
        (n,) float64 array
            log p(x) in nats; −inf where it is below what float64 holds. With `out`, that array. For an object of xarray
            without `out` a DataArray with the coordinates of its samples, lazy if `x` is; so for the other methods.

        Raises
        ------
        TypeError, FileNotFoundError
            When `x` is nothing that can be rows, or nothing is stored there.
        ValueError
            When rows have another width or layout than the model or hold NaN or infinity, or it is not clear what to
            read; when `out` is open and has another shape or a dtype that cannot hold the results.
        FileExistsError
            When something else is stored at `out`, such as results of another model.

        Examples
        --------
        >>> import numpy as np
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([1.0], [[0.0, 0.0]], np.zeros((1, 0, 2)), [[1.0, 1.0]])
        >>> model.score_samples([[0.0, 0.0], [3.0, 4.0]]).round(3)
        array([ -1.838, -14.338])
        """
        scores: Float64 | zarr.Array[Any] = self._results("score_samples", {}, x, array, sample_dim, out)
        return scores

    @overload
    def predict(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> Int64: ...
    @overload
    def predict(
        self, x: Any, array: str | None = None, sample_dim: str | None = None, *, out: Any
    ) -> zarr.Array[Any]: ...
    def predict(
        self, x: Any, array: str | None = None, sample_dim: str | None = None, *, out: Any = None
    ) -> Int64 | zarr.Array[Any]:
        """The most probable component of each row.

        Parameters
        ----------
        x, array, sample_dim, out
            Rows and output, as in `score_samples`. An open array may have any integer dtype that holds C − 1.

        Returns
        -------
        (n,) int64 array
            Numbers of components, of the largest log p(c, x); ties go to the smaller number. With `out`, that array.

        Raises
        ------
        TypeError, ValueError, FileNotFoundError, FileExistsError
            As `score_samples`.

        Examples
        --------
        >>> import numpy as np
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([0.5, 0.5], [[0.0, 0.0], [9.0, 9.0]], np.zeros((2, 0, 2)), np.ones((2, 2)))
        >>> model.predict([[0.5, -0.5], [8.0, 9.5]])
        array([0, 1])
        """
        labels: Int64 | zarr.Array[Any] = self._results("predict", {}, x, array, sample_dim, out)
        return labels

    @overload
    def predict_proba(
        self, x: Any, truncation: None = None, array: str | None = None, sample_dim: str | None = None
    ) -> Float64: ...
    @overload
    def predict_proba(
        self, x: Any, truncation: int, array: str | None = None, sample_dim: str | None = None
    ) -> SparseProbabilities: ...
    @overload
    def predict_proba(
        self, x: Any, truncation: int | None = None, array: str | None = None, sample_dim: str | None = ..., *, out: Any
    ) -> zarr.Array[Any] | zarr.Group: ...
    def predict_proba(
        self,
        x: Any,
        truncation: int | None = None,
        array: str | None = None,
        sample_dim: str | None = None,
        *,
        out: Any = None,
    ) -> Float64 | SparseProbabilities | zarr.Array[Any] | zarr.Group:
        """Posteriors of the components, p(c|x).

        Parameters
        ----------
        x, array, sample_dim, out
            Rows and output, as in `score_samples`. With `truncation`, the output is a group with the arrays
            "components", "probabilities" and "captured".
        truncation : int, optional
            C', components kept per row, 1 to C; by default all. All of them are evaluated in either case.

        Returns
        -------
        (n, C) float64 array, or SparseProbabilities
            Each row sums to 1. Where all densities are below what float64 holds, the nearest component has the
            probability 1. With `out`, the array or group. With `truncation`, arrays have no labels.

        Raises
        ------
        TypeError, ValueError, FileNotFoundError, FileExistsError
            As `score_samples`, and ValueError when `truncation` is outside its range.

        Examples
        --------
        >>> import numpy as np
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([0.5, 0.5], [[-5.0], [5.0]], np.zeros((2, 0, 1)), np.ones((2, 1)))
        >>> model.predict_proba([[0.0], [0.1], [1e4]]).round(3)
        array([[0.5  , 0.5  ],
               [0.269, 0.731],
               [0.   , 1.   ]])
        """
        return self._results("predict_proba", {"truncation": truncation}, x, array, sample_dim, out)  # type: ignore[no-any-return]

    @overload
    def transform(
        self, x: Any, weighted: bool = False, array: str | None = None, sample_dim: str | None = None
    ) -> Float64: ...
    @overload
    def transform(
        self, x: Any, weighted: bool = False, array: str | None = None, sample_dim: str | None = None, *, out: Any
    ) -> zarr.Array[Any]: ...
    def transform(
        self,
        x: Any,
        weighted: bool = False,
        array: str | None = None,
        sample_dim: str | None = None,
        *,
        out: Any = None,
    ) -> Float64 | zarr.Array[Any]:
        """Posterior means of the factors (paper, eq:z_gauss_params).

        Parameters
        ----------
        x, array, sample_dim, out
            Rows and output, as in `score_samples`.
        weighted : bool
            By default, the factors are those of the most probable component, E[z|c,x]: compare only rows of one
            component (`predict`), because each component has factors of its own. When set, they are averaged over the
            posteriors, Σ_c p(c|x) E[z|c,x], which has no jumps between components. It means something only where the
            factors of neighbouring components point in similar directions.

        Returns
        -------
        (n, H) float64 array
            In units of the factors' prior, a standard normal. With `out`, that array.

        Raises
        ------
        TypeError, ValueError, FileNotFoundError, FileExistsError
            As `score_samples`, and ValueError when `weighted` is not a truth value.

        Examples
        --------
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([1.0], [[0.0, 0.0]], [[[1.0, 1.0]]], [[0.1, 0.1]])
        >>> model.transform([[2.0, 2.0], [-1.0, -0.5]]).round(3)
        array([[ 1.905],
               [-0.714]])
        """
        factors: Float64 | zarr.Array[Any] = self._results(
            "transform", {"weighted": weighted}, x, array, sample_dim, out
        )
        return factors

    @overload
    def reconstruct(
        self, x: Any, truncation: int | None = None, array: str | None = None, sample_dim: str | None = None
    ) -> Float64: ...
    @overload
    def reconstruct(
        self, x: Any, truncation: int | None = None, array: str | None = None, sample_dim: str | None = ..., *, out: Any
    ) -> zarr.Array[Any]: ...
    def reconstruct(
        self,
        x: Any,
        truncation: int | None = None,
        array: str | None = None,
        sample_dim: str | None = None,
        *,
        out: Any = None,
    ) -> Float64 | zarr.Array[Any]:
        """Expected rows without their noise, Σ_c p(c|x)(Λ_c E[z|c,x] + μ_c) (paper, zero-eq:deri4).

        Parameters
        ----------
        x, array, sample_dim, out
            Rows and output, as in `score_samples`. An open array may be float32.
        truncation : int, optional
            C', components that count in each row, with posteriors that are normalised over them (paper,
            eq:de_mfa_approx); by default all C.

        Returns
        -------
        (n, *feature_shape) float64 array
            In the units of the data. With `out`, that array.

        Raises
        ------
        TypeError, ValueError, FileNotFoundError, FileExistsError
            As `predict_proba`.

        Examples
        --------
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([1.0], [[0.0, 0.0]], [[[1.0, 1.0]]], [[0.1, 0.1]])
        >>> model.reconstruct([[2.5, 1.5], [-1.0, -0.5]]).round(3)
        array([[ 1.905,  1.905],
               [-0.714, -0.714]])
        """
        expected: Float64 | zarr.Array[Any] = self._results(
            "reconstruct", {"truncation": truncation}, x, array, sample_dim, out
        )
        return expected


def _computed(function: RowFunction, model: RowMethods, rows: RowSource) -> Any:
    results = function.of_range(model._evaluator, rows)
    return next(iter(results.values())) if len(results) == 1 else SparseProbabilities(**results)
