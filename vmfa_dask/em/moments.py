"""Moments of a group of rows while row blocks are added: of all components, or of those alone that rows touch.

With very many components a group touches few of them, and sums of all would be twice as large as the model for each
group. Both forms hold the same numbers. May import: values, kernels, runtime, em.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.em.evaluation import add_moments
from vmfa_dask.em.owners import count_owned_rows, owned_rows
from vmfa_dask.em.packed import ModelVersion
from vmfa_dask.em.row_block import RowBlock
from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels.moments import NEGLIGIBLE
from vmfa_dask.kernels.parameters import add_posterior_covariances
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Int32, Moments, TruncatedPosterior

# Sums of all components below this size are kept as such: what they take is nothing beside the rows.
SMALL_SUMS_BYTES = 16 * 2**20
# Where this part of all components is touched, sums of the others cost less than it takes to leave them out.
_MOST_TOUCHED = 0.5
# Room for components that rows did not keep before, when sums are made and when they grow.
_ROOM, _GROWTH = 1.125, 1.5


def touched_components(posterior: TruncatedPosterior, n_components: int) -> int:
    """Components that some row keeps.

    Parameters
    ----------
    posterior : TruncatedPosterior
        Kept components of the rows of a group.
    n_components : int
        C.

    Returns
    -------
    int
    """
    kept = np.zeros(n_components + 1, bool)
    kept[posterior.components] = True  # −1, where a row has fewer, is the last one
    return int(np.count_nonzero(kept[:-1]))


def are_sparse(n_touched: int, n_components: int, bytes_of_one: int) -> bool:
    """Whether sums are kept of those components alone that are touched.

    Parameters
    ----------
    n_touched, n_components : int
        How many of C components.
    bytes_of_one : int
        Size of the moments of one component.

    Returns
    -------
    bool
    """
    return n_touched < _MOST_TOUCHED * n_components and n_components * bytes_of_one > SMALL_SUMS_BYTES


class MomentSum:
    """The moments of a group of rows, while row blocks are added.

    Parameters
    ----------
    model : ModelVersion
        What the rows are evaluated with.
    dtype : {"float32", "float64"}
        Dtype of the sums.
    n_touched : int
        How many components the rows will touch, about.
    cores, buffers : Cores, BufferPool
        Threads and memory of this process.
    """

    def __init__(self, model: ModelVersion, dtype: str, n_touched: int, cores: Cores, buffers: BufferPool) -> None:
        self._model, self._cores, self._buffers = model, cores, buffers
        self._n, d = model.mixture.means.shape
        h = model.packed.cholesky.shape[1]
        self._shape, self._dtype = (h + 2, d), np.dtype(dtype)
        self._sparse = are_sparse(n_touched, self._n, (h + 2) * d * self._dtype.itemsize)
        # Components in the order in which they are met, and where each of them is, or −1.
        self._components, self._slots = np.arange(self._n, dtype=np.int32), np.zeros(0, np.int32)
        self._n_met = 0
        if self._sparse:
            self._components, self._slots = np.zeros(0, np.int32), np.full(self._n, -1, np.int32)
        self._sums = self._empty(min(self._n, int(_ROOM * n_touched)) if self._sparse else self._n)

    def add(self, rows: Rows, block: RowBlock) -> None:
        """Add the moments of the next row block, under the components that matter to its rows.

        Parameters
        ----------
        rows : (n, D) array
            Its rows.
        block : RowBlock
            The rows as they were evaluated.
        """
        n_ranks, cores = block.components.shape[1], self._cores
        counts = count_owned_rows(block, n_ranks, NEGLIGIBLE, self._n, cores)
        n_started = self._n_met
        self._meet(counts)
        components = self._components
        indptr = np.zeros(len(components) + 1, np.int64)
        np.cumsum(counts[components] if self._sparse else counts, out=indptr[1:])
        begins = indptr[:-1].copy()
        if self._sparse:
            begins = np.zeros(self._n, np.int64)
            begins[components] = indptr[:-1]
        # By component, and within one by row: a component is read once, and its sums have one order.
        members, weights = owned_rows(block, n_ranks, NEGLIGIBLE, begins, int(indptr[-1]), cores)
        packed, means = self._model.packed, self._model.mixture.means
        add_moments(rows, members, indptr, components, weights, packed, means, cores, n_started, self._part())

    def total(self, dtype: str) -> Moments:
        """The sums over all row blocks, with the covariances of the factors.

        Parameters
        ----------
        dtype : {"float32", "float64"}
            Dtype of the run, to which sums are rounded.

        Returns
        -------
        Moments
            Of this group; components are ascending.
        """
        sums, cholesky = self._part(), self._model.packed.cholesky
        # The covariance of the factors is the same for all rows of a component, so N_c times it is added once.
        self._cores.run(
            lambda a, b: add_posterior_covariances(
                cholesky[self._components[a:b]] if self._sparse else cholesky[a:b],
                sums.counts[a:b],
                sums.factor_moments[a:b],
            ),
            self._cores.split(self._n_met, cholesky.shape[1] ** 3),
        )
        order = np.argsort(self._components) if self._sparse else None
        ascending = order is None or bool((order[1:] > order[:-1]).all())
        ids = self._components if self._sparse else None
        if ascending and self._dtype == dtype:
            return Moments(sums.counts, sums.factor_moments, sums.moments, ids)
        rounded = self._buffers.empty(sums.moments.shape, dtype)

        def fill(start: int, stop: int) -> None:
            chosen = sums.moments[start:stop] if ascending or order is None else sums.moments[order[start:stop]]
            np.copyto(rounded[start:stop], chosen, casting="same_kind")

        self._cores.run(fill, self._cores.split(len(rounded)))
        if order is None or ids is None:
            return Moments(sums.counts, sums.factor_moments, rounded)
        return Moments(sums.counts[order], sums.factor_moments[order], rounded, ids[order])

    def _meet(self, counts: NDArray[np.int64]) -> None:
        """Give the components that a row block touches first their places, behind those of the blocks before."""
        if not self._sparse:
            self._n_met = self._n
            return
        new: Int32 = np.flatnonzero((counts > 0) & (self._slots < 0)).astype(np.int32)
        n = self._n_met + len(new)
        self._slots[new] = np.arange(self._n_met, n)
        if n > len(self._sums.counts):
            self._grow(min(self._n, max(n, int(_GROWTH * len(self._sums.counts)))))
        self._components, self._n_met = np.concatenate([self._components, new]), n

    def _grow(self, n: int) -> None:
        before, self._sums = self._part(), self._empty(n)
        after = self._part()

        def copy(a: int, b: int) -> None:
            for name in ("counts", "factor_moments", "moments"):
                getattr(after, name)[a:b] = getattr(before, name)[a:b]

        self._cores.run(copy, self._cores.split(self._n_met))

    def _empty(self, n: int) -> Moments:
        h = self._shape[0] - 1
        return Moments(np.empty(n), np.empty((n, h, h)), self._buffers.empty((n, *self._shape), self._dtype))

    def _part(self) -> Moments:
        """The sums of the components that were met."""
        sums, n = self._sums, self._n_met
        return Moments(sums.counts[:n], sums.factor_moments[:n], sums.moments[:n])
