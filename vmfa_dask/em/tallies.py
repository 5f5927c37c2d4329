"""Tallies of the estimated divergences between components: of a row block, and sums of them (paper, alg:estep).

May import: values, kernels, runtime, em.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from vmfa_dask.em.owners import count_owned_rows, owned_rows
from vmfa_dask.em.packed import ModelVersion
from vmfa_dask.em.row_block import RowBlock
from vmfa_dask.kernels.arguments import Regrouped, Tallies
from vmfa_dask.kernels.tallies import merge_tallies, tally_divergences
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Divergences, Int64

# Entries per component that are kept where parts are merged: some per neighbour that it can have or, if it is more, as
# many as all components have together. Few of the pairs that are cut would have become neighbours: free energies after
# four passes were -824.5 with all entries, -824.2 with 14 per neighbour, -823.8 with 8 and -823.1 with 3 (a million
# patches, C = 20,000, G = 15).
_ENTRIES_PER_NEIGHBOR = 4
_ENTRIES = 2**21
# Entries that wait to be merged, at least: small sums are not worth a sweep for each row block.
_WAITING = 2**23
# Entries that a thread merges at a time.
_ENTRIES_PER_RANGE = 2**17


def most_entries(n_components: int, n_neighbors: int) -> int:
    """Entries that a component keeps where tallies are merged.

    Parameters
    ----------
    n_components, n_neighbors : int
        C and G.

    Returns
    -------
    int
        At least C for up to 1,448 components, of which every pair is kept.
    """
    return max(_ENTRIES_PER_NEIGHBOR * n_neighbors, _ENTRIES // n_components)


class DivergenceSum:
    """The tallies of a group of rows, while row blocks are added.

    Parameters
    ----------
    model : ModelVersion
        What the rows are evaluated with.
    by_divergence : bool
        Whether components are compared by their KL divergences, or by mean log-joints.
    cores, buffers : Cores, BufferPool
        Threads and memory of this process.
    """

    def __init__(self, model: ModelVersion, by_divergence: bool, cores: Cores, buffers: BufferPool) -> None:
        self._model, self._by_divergence, self._cores, self._buffers = model, by_divergence, cores, buffers
        self._parts: list[Divergences] = []

    def add(self, block: RowBlock) -> None:
        """Add the tallies of the next row block.

        Parameters
        ----------
        block : RowBlock
            Its evaluated rows.
        """
        self._parts.append(tally_block(block, self._model, self._by_divergence, self._cores, self._buffers))
        # Blocks wait until they have as many entries as the sum so far: it is written again a few times, not for each.
        waiting = sum(len(part.ids) for part in self._parts[1:])
        if waiting >= max(_WAITING, len(self._parts[0].ids)):
            self._parts = [self.total()]

    def total(self) -> Divergences:
        """The sum of what was added.

        Returns
        -------
        Divergences
        """
        n_components, n_neighbors = self._model.graph.neighbors.shape
        most = most_entries(n_components, n_neighbors)
        return add_divergences(self._parts, n_components, most, self._cores, self._buffers)


def tally_block(
    block: RowBlock, model: ModelVersion, by_divergence: bool, cores: Cores, buffers: BufferPool
) -> Divergences:
    """Blocks 2 and 3 of Algorithm 1: partition rows by their best component, tally the estimated divergences.

    Parameters
    ----------
    block : RowBlock
        Evaluated rows.
    model : ModelVersion
        What they were evaluated with.
    by_divergence : bool
        Whether components are compared by their KL divergences, or by mean log-joints.
    cores, buffers : Cores, BufferPool
        Threads and memory of this process.

    Returns
    -------
    Divergences
        Of all components; ids in the order in which rows meet them.
    """
    c, width = model.mixture.n_components, block.candidates.shape[1]
    indptr = _running_sums(count_owned_rows(block, 1, -1.0, c, cores))
    members, _ = owned_rows(block, 1, -1.0, indptr[:-1].copy(), len(block.components), cores)
    shifts, best = model.packed.log_weights, block.best - model.packed.log_weights[block.components[:, 0]]
    # With zeros in their place the same kernel compares components by mean log-joints.
    if not by_divergence:
        shifts, best = np.zeros_like(shifts), np.zeros_like(best)
    # Room for every candidate of every row; pages that are never touched cost no memory.
    room = _empty_tallies(indptr, len(members) * width, buffers)
    regrouped, spaces, lengths = Regrouped(members, indptr), block.spaces, np.empty(c, np.int64)
    ranges = cores.split_by_work(indptr, block.operations)
    cores.run(
        lambda a, b: tally_divergences(regrouped, spaces, best, shifts, a, b, indptr[a] * width, lengths, room), ranges
    )
    begins = [int(indptr[a]) * width for a, _ in ranges]
    ends = _running_sums(lengths)
    pieces = [
        _part(room, ends, begin, begin + int(ends[b] - ends[a])) for begin, (a, b) in zip(begins, ranges, strict=True)
    ]
    return _joined(ends, pieces, cores, buffers)


def add_divergences(
    parts: Sequence[Divergences], n_components: int, most: int, cores: Cores, buffers: BufferPool
) -> Divergences:
    """Sum of tallies of the same components, in the order of the parts.

    Parameters
    ----------
    parts : sequence of Divergences
        Tallies D̃_cc̃ and N_cc̃ of one component block.
    n_components : int
        C.
    most : int
        Entries to keep of each component: those of the smallest mean divergences.
    cores, buffers : Cores, BufferPool
        Threads and memory of this process.

    Returns
    -------
    Divergences
        Ids are ascending within a component.
    """
    indptr = np.stack([part.indptr for part in parts])
    n_entries = indptr.sum(axis=0)
    # Ranges are small also on one thread, as the entries of a range are copied for the kernel.
    n_ranges = -(-int(n_entries[-1]) // _ENTRIES_PER_RANGE)
    edges = np.searchsorted(n_entries, np.linspace(0, n_entries[-1], n_ranges + 1)[1:-1])
    ranges = list(itertools.pairwise(np.unique([0, *edges.tolist(), len(n_entries) - 1]).tolist()))
    begins = _running_sums(np.minimum(np.diff(n_entries), most))
    room = _empty_tallies(begins, int(begins[-1]), buffers)

    def merge_range(a: int, b: int) -> Tallies:
        bounds = [slice(int(row[a]), int(row[b])) for row in indptr]
        copied = _empty_tallies(begins, int(n_entries[b] - n_entries[a]), buffers)
        for name in ("ids", "sums", "counts"):
            pieces = [getattr(part, name)[bound] for part, bound in zip(parts, bounds, strict=True)]
            np.concatenate(pieces, out=getattr(copied, name))
        copied_begins = _running_sums([bound.stop - bound.start for bound in bounds])[:-1]
        positions = indptr[:, a : b + 1] - (indptr[:, a] - copied_begins)[:, None]
        out = _part(room, np.empty(b - a + 1, np.int64), int(begins[a]), int(begins[b]))
        n = merge_tallies(copied._replace(indptr=positions), n_components, most, out)
        return _part(out, out.indptr, 0, n)

    pieces = cores.run(merge_range, ranges)
    lengths = np.concatenate([np.diff(piece.indptr) for piece in pieces])
    return _joined(_running_sums(lengths), pieces, cores, buffers)


def _running_sums(lengths: Sequence[int] | Int64) -> Int64:
    """Sums of the first 0, 1, ... lengths."""
    sums = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=sums[1:])
    return sums


def _empty_tallies(indptr: Int64, n: int, buffers: BufferPool) -> Tallies:
    return Tallies(
        indptr, buffers.empty((n,), np.int32), buffers.empty((n,), np.float64), buffers.empty((n,), np.int64)
    )


def _part(tallies: Tallies, indptr: Int64, first: int, last: int) -> Tallies:
    """A range of the entries, in which those of each component begin at `indptr`."""
    return Tallies(indptr, tallies.ids[first:last], tallies.sums[first:last], tallies.counts[first:last])


def _joined(indptr: Int64, pieces: Sequence[Tallies], cores: Cores, buffers: BufferPool) -> Divergences:
    """The entries of ranges of components, one after the other."""
    joined, begins = _empty_tallies(indptr, int(indptr[-1]), buffers), _running_sums([len(p.ids) for p in pieces])

    def copy(first: int, last: int) -> None:
        for k in range(first, last):
            for name in ("ids", "sums", "counts"):
                getattr(joined, name)[begins[k] : begins[k + 1]] = getattr(pieces[k], name)

    cores.run(copy, [(k, k + 1) for k in range(len(pieces))])
    return Divergences(*joined)
