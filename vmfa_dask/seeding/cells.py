"""Cells of seeds: a run of very many components begins with neighbours that are near, in place of random ones.

The seeds of a run are grouped into about √C cells by k-means. Rows and components then begin with the nearest seeds of
their own cell, components with those around it too, so that the first search already meets components that
matter. Components are numbered along the cells: what a row asks for lies together. No step compares all seeds with all
others.

May import: values, runtime, kernels, em.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

import numpy as np

from vmfa_dask.em.exhaustive import evaluate_exhaustively
from vmfa_dask.em.packed import PackedMixture, pack_mixture
from vmfa_dask.em.rows import Rows, read_only
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.clock import Stopwatch
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.seeding.afkmc2 import squared_distances
from vmfa_dask.values import Float64, FloatArray, Int32, Int64, Mixture

# Steps of k-means, and the seeds that take part, about, for each centre. Cells need not be the best ones: they only say
# which seeds to begin with.
_STEPS = 8
_SEEDS_PER_CENTER = 128
# Seeds of a cell, at most, in those of an average one: its rows and seeds are compared with all of them. To cut large
# cells takes some rounds where most of the data lies in a small part of its range.
_LARGEST = 4
_ROUNDS = 8
# Cells from whose seeds a component gets its neighbours: near an edge of a cell the nearest ones are in the next one.
# The first pass over 500,000 patches of 8 x 8 x 3 bytes (C = 5,000) reached -998.9, -998.5, -998.3 and -998.2 nats per
# row with one to four. That rows choose from two gained 0.1, for half as many distances again.
_CELLS = 4
# Distances that are in memory at once, about: they stay in the second-level cache.
_DISTANCES = 2**18


@dataclass(frozen=True)
class Cells:
    """Cells of the seeds of a run, in an order in which neighbours follow each other.

    Parameters
    ----------
    centers : (K, D) array
        Their centres, in the dtype of the seeds.
    order : (C,) int64 array
        The seeds along the cells: entry c is the seed that component c begins with.
    neighbors : (C, G) int32 array
        First g_c: component c itself, then the nearest ones of its cell and those around it, the nearest first.
    edges : (K + 1,) int64 array
        Cell k has the components ``edges[k]:edges[k + 1]``, C' or more. Where many seeds coincide, cells have the same
        centre; rows go to the first one.
    """

    centers: FloatArray
    order: Int64
    neighbors: Int32
    edges: Int64


def group_seeds(seeds: FloatArray, scales: Float64, n_neighbors: int, n_kept: int, cores: Cores) -> Cells:
    """Group seeds into cells, in O(C^1.5 D).

    Parameters
    ----------
    seeds : (C, D) float32 or float64 array
        The seeds.
    scales : (D,) float64 array
        Units of the features, in which distances are measured.
    n_neighbors, n_kept : int
        G and C', at most C.
    cores : Cores
        Threads of this process.

    Returns
    -------
    Cells
        The same ones on any number of threads.
    """
    points = read_only(seeds)
    centers = _cut_large(points, _k_means(points, _number_of(len(points)), scales, cores), scales, cores)
    owners = Centers(centers, scales, cores).owners(points)
    # A cell gives its rows C' seeds; rows and seeds of a smaller one go to the next.
    large_enough = np.bincount(owners, minlength=len(centers)) >= n_kept
    centers = centers[large_enough] if large_enough.any() else centers[:1]
    owners = Centers(centers, scales, cores).owners(points)
    distances = squared_distances(read_only(centers), centers, scales, cores)
    np.fill_diagonal(distances, -1.0)  # nothing is nearer, not even what rounding has brought to 0
    line = _in_line(distances)
    owners = np.argsort(line)[owners]
    order = np.argsort(owners, kind="stable")
    cells, edges = _cut_evenly(np.bincount(owners), max(_largest_of(len(points)), 2 * n_kept))
    centers, distances = centers[line][cells], distances[np.ix_(line[cells], line[cells])]
    points = read_only(points[order])
    neighbors = np.empty((len(points), n_neighbors), np.int32)
    choices = Centers(points, scales, cores)
    for cell, of_cell in enumerate(distances):
        members, pool = np.arange(edges[cell], edges[cell + 1]), _pool(of_cell, edges, n_neighbors + 1)
        listed = pool[choices.nearest(read_only(points[members]), n_neighbors, pool)]
        neighbors[members] = _with_itself_first(listed, members)
    return Cells(centers, order, neighbors, edges)


class Centers:
    """Points among which the nearest ones of rows are found.

    Parameters
    ----------
    points : (K, D) float32 or float64 array
        The points.
    scales : (D,) float64 array
        Units of the features, in which distances are measured.
    cores : Cores
        Threads of this process.
    """

    def __init__(self, points: FloatArray, scales: Float64, cores: Cores) -> None:
        # Gaussians of equal weight and variance: the most probable one is the nearest.
        k, d = points.shape
        variances = np.broadcast_to(np.square(scales).astype(points.dtype), (k, d))
        unit = Mixture(np.full(k, 1.0 / k), points, np.zeros((k, 0, d), points.dtype), variances)
        self._packed, self._cores = pack_mixture(unit, cores), cores

    def nearest(self, rows: Rows, n_kept: int, among: Int64 | slice | None = None) -> Int32:
        """The nearest points of each row.

        Parameters
        ----------
        rows : (n, D) array
            Rows as `em.rows.working_rows` returns them.
        n_kept : int
            How many points.
        among : (P,) int64 array or slice, optional
            Numbers of the points that are compared, `n_kept` or more; by default all.

        Returns
        -------
        (n, n_kept) int32 array
            Indices into `among`, the nearest first; of equally near points the first one. Where all are kept they stay
            in their order.
        """
        packed = self._packed if among is None else _part_of(self._packed, among)
        buffers, watch = BufferPool(), Stopwatch()
        nearest, size = np.empty((len(rows), n_kept), np.int32), max(64, _DISTANCES // len(packed.log_norms))
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            nearest[part] = evaluate_exhaustively(rows[part], packed, n_kept, self._cores, buffers, watch).components
        return nearest

    def owners(self, rows: Rows) -> Int64:
        """The nearest point of each row.

        Parameters
        ----------
        rows : (n, D) array
            Rows as `em.rows.working_rows` returns them.

        Returns
        -------
        (n,) int64 array
        """
        return self.nearest(rows, 1)[:, 0].astype(np.int64)


def _part_of(packed: PackedMixture, components: Int64 | slice) -> PackedMixture:
    """The packed form of some components."""
    names = [field.name for field in fields(packed) if field.name != "packed_precise"]
    return replace(packed, **{name: getattr(packed, name)[components] for name in names})


def rows_by_owner(owners: Int64) -> Iterable[tuple[int, Int64]]:
    """Group rows by the point that is nearest to them.

    Parameters
    ----------
    owners : (n,) int64 array
        As `Centers.owners` returns them.

    Yields
    ------
    (int, (m,) int64 array)
        A point that has rows, and their numbers, ascending.
    """
    order = np.argsort(owners, kind="stable")
    points, begins = np.unique(owners[order], return_index=True)
    return zip(points.tolist(), np.split(order, begins[1:]), strict=True)


def _number_of(n_seeds: int) -> int:
    return max(1, round(math.sqrt(n_seeds)))


def _largest_of(n_seeds: int) -> int:
    """Seeds of a cell, at most."""
    return _LARGEST * n_seeds // _number_of(n_seeds)


def _cut_evenly(sizes: Int64, most: int) -> tuple[Int64, Int64]:
    """Cells cut into parts of `most` seeds or fewer: the cell of each part, and the edges of the parts."""
    n_parts = -(-sizes // most)
    begins = np.cumsum(sizes) - sizes
    edges = [begin + size * np.arange(n) // n for begin, size, n in zip(begins, sizes, n_parts, strict=True)]
    return np.repeat(np.arange(len(sizes)), n_parts), np.concatenate([*edges, [sizes.sum()]])


def _k_means(points: Rows, n_centers: int, scales: Float64, cores: Cores) -> FloatArray:
    """Centres after some steps of k-means, on some of the points; those that lose theirs stay where they are."""
    step = max(1, len(points) // (_SEEDS_PER_CENTER * n_centers))
    points = read_only(np.ascontiguousarray(points[::step]))
    centers: FloatArray = points[:n_centers].copy()
    for _ in range(_STEPS if n_centers > 1 else 1):
        for cell, members in rows_by_owner(Centers(centers, scales, cores).owners(points)):
            # One sum per feature, in the order of the points, whatever the threads.
            centers[cell] = points[members].sum(axis=0, dtype=np.float64) / len(members)
    return centers


def _cut_large(points: Rows, centers: FloatArray, scales: Float64, cores: Cores) -> FloatArray:
    """Centres with those of large cells replaced by several, until no cell is large, or points coincide."""
    usual, largest = len(points) / len(centers), _largest_of(len(points))
    for _ in range(_ROUNDS):
        owners = Centers(centers, scales, cores).owners(points)
        large = [(cell, members) for cell, members in rows_by_owner(owners) if len(members) > largest]
        if not large:
            break
        finer = [_k_means(read_only(points[m]), math.ceil(len(m) / usual), scales, cores) for _, m in large]
        kept = np.setdiff1d(owners, [cell for cell, _ in large])
        centers = np.concatenate([centers[kept], *finer])
        centers = centers[np.sort(np.unique(centers, axis=0, return_index=True)[1])]
    return centers


def _in_line(distances: Float64) -> Int64:
    """Points in an order in which neighbours follow each other: halves of them, then halves of the halves.

    Parameters
    ----------
    distances : (K, K) float64 array
        Squared distances of all points.

    Returns
    -------
    (K,) int64 array
    """

    def arranged(points: Int64, before: int) -> Int64:
        if len(points) < 2:
            return points
        # Two points at opposite ends; each of the others goes with the nearer one, and both halves are equally large.
        first = points[np.argmax(distances[points, points[0]])]
        last = points[np.argmax(distances[points, first])]
        if distances[before, last] < distances[before, first]:
            first, last = last, first
        along = points[np.argsort(distances[points, first] - distances[points, last], kind="stable")]
        half = arranged(along[: len(along) // 2], before)
        return np.concatenate([half, arranged(along[len(along) // 2 :], int(half[-1]))])

    return arranged(np.arange(len(distances)), 0)


def _pool(distances: Float64, edges: Int64, least: int) -> Int64:
    """Components of a cell and of the nearest ones, `least` or more of them, in ascending order."""
    by_distance = np.argsort(distances, kind="stable")
    sizes = np.diff(edges)[by_distance]
    n_cells = max(_CELLS, int(np.searchsorted(np.cumsum(sizes), least)) + 1)
    return np.concatenate([np.arange(edges[k], edges[k + 1]) for k in np.sort(by_distance[:n_cells])])


def _with_itself_first(neighbors: Int64, components: Int64) -> Int32:
    """Neighbours with the component itself moved to the front, or put there if others at its place crowd it out."""
    rest = np.argsort(neighbors == components[:, None], axis=1, kind="stable")[:, : neighbors.shape[1] - 1]
    return np.column_stack([components, np.take_along_axis(neighbors, rest, axis=1)]).astype(np.int32)
