"""Rows drawn from a mixture, in memory or into a Zarr array chunk by chunk.

May import: values, runtime, kernels, store, apply, numpy.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from vmfa_dask.apply.calls import described_call
from vmfa_dask.apply.parameters import ModelParameters
from vmfa_dask.apply.row_functions import rows_column
from vmfa_dask.kernels import random
from vmfa_dask.runtime.threads import Cores, available_cores
from vmfa_dask.store.outputs import open_results
from vmfa_dask.values import Float64, Int64, Mixture

# Draws of a row are keyed by what they are for, in the place of the iteration.
_COMPONENT, _FACTORS, _NOISE = range(3)
_BLOCK_BYTES = 2**21  # rows of one task of a thread
_WRITTEN_BYTES = 2**23  # rows that are drawn until they are written


class Sampling(ModelParameters):
    """What a `MixtureModel` draws."""

    def sample(self, n_samples: int = 1, random_state: int = 0, out: Any = None) -> tuple[Any, Int64]:
        """Draw rows from the mixture.

        Every number is a hash of `random_state` and the number of its row: the first rows of a longer sample are those
        of a shorter one, and the number of threads does not affect them.

        Parameters
        ----------
        n_samples : int
            n, number of rows.
        random_state : int
            From 0 to 2⁶³ − 1; equal numbers give equal rows.
        out : str, path or zarr.Array, optional
            Where rows that do not fit memory go, as in `score_samples`: the same call continues after an interruption.

        Returns
        -------
        rows : (n, *feature_shape) float64 array
            In the units of the training data and in random order; with `out` a `zarr.Array` that holds them.
        components : (n,) int64 array
            The component that each row was drawn from.

        Raises
        ------
        TypeError, ValueError
            When `n_samples` or `random_state` is no integer, or outside its range.
        FileExistsError
            When something else is stored at `out`.
        OSError
            When `out` cannot be written.

        Examples
        --------
        >>> import numpy as np
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([0.5, 0.5], [[0.0, 0.0], [9.0, 9.0]], np.zeros((2, 0, 2)), np.ones((2, 2)))
        >>> rows, components = model.sample(1000, random_state=1)
        >>> rows.shape, bool((model.predict(rows) == components).all())
        ((1000, 2), True)
        """
        n, seed = operator.index(n_samples), operator.index(random_state)
        if n < 1:
            raise ValueError(f"n_samples={n}: expected at least 1")
        if not 0 <= seed < 2**63:
            raise ValueError(f"random_state={seed}: expected an integer from 0 to 2**63 - 1")
        shape, draws = (n, *self.feature_shape), _Draws(self.mixture, seed)
        if out is None:
            rows = np.empty((n, self.n_features))
            return rows.reshape(shape), draws.write(0, rows)
        column = rows_column(self.feature_shape)
        call = described_call(self.mixture, "sample", {"n_samples": n, "random_state": seed})
        output = open_results(out, {"rows": column}, n, call)
        written = max(1, _WRITTEN_BYTES // column.row_bytes)

        def drawn(start: int, stop: int) -> dict[str, Float64]:
            rows = np.empty((stop - start, self.n_features))
            draws.write(start, rows)
            return {"rows": rows.reshape(-1, *self.feature_shape)}

        stored = output.fill(written, drawn)
        # Drawn again: an earlier call may have written rows, and they cost a number each.
        return stored, np.concatenate([draws.components(a, min(written, n - a)) for a in range(0, n, written)])


class _Draws:
    """The endless sequence of rows that a seed draws from a mixture."""

    def __init__(self, mixture: Mixture, seed: int) -> None:
        self.mixture, self.seed, self.cores = mixture, seed, Cores(available_cores())
        sums = np.cumsum(mixture.weights)
        self._ends = sums / sums[-1]  # the last one is exactly 1, however weights are rounded

    def write(self, first: int, out_rows: Float64) -> Int64:
        """Write rows from number `first` on into (n, D) `out_rows`, and return their components (n,)."""
        components = np.empty(len(out_rows), np.int64)

        def write(start: int, stop: int) -> None:
            part = slice(start, stop)
            components[part] = self._write_block(first + start, out_rows[part])

        size = max(1, _BLOCK_BYTES // (8 * out_rows.shape[1]))
        starts = range(0, len(out_rows), size)
        self.cores.run(write, [(start, min(start + size, len(out_rows))) for start in starts])
        return components

    def components(self, first: int, n: int) -> Int64:
        """Components (n,) of rows from number `first` on."""
        position = np.empty((n, 1))
        random.uniforms(self.seed, random.DRAWN_ROWS, _COMPONENT, first, position)
        return np.searchsorted(self._ends, position[:, 0], side="right").astype(np.int64, copy=False)

    def _write_block(self, first: int, out_rows: Float64) -> Int64:
        m, n = self.mixture, len(out_rows)
        components, factors = self.components(first, n), np.empty((n, m.n_factors))
        random.normals(self.seed, random.DRAWN_ROWS, _FACTORS, first, factors)
        random.normals(self.seed, random.DRAWN_ROWS, _NOISE, first, out_rows)
        out_rows *= np.sqrt(m.noise_variances[components], dtype=np.float64)
        for h in range(m.n_factors):
            out_rows += factors[:, h, None] * m.loadings[components, h]
        out_rows += m.means[components]
        out_rows += m.offset
        return components
