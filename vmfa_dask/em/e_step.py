"""The partial variational E-step of one shard group (paper, Algorithm 1). May import: values, kernels, em.

Rows pass block by block; within a block the search spaces of a tile of rows are evaluated together, regrouped by
component, so that the parameters of a component are loaded once for all rows that ask for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.em.block import BlockState, Stopwatch
from vmfa_dask.em.context import RunContext, Step
from vmfa_dask.em.evaluation import add_moments, evaluate_joints
from vmfa_dask.em.exhaustive import evaluate_exhaustively
from vmfa_dask.em.precision import Precision
from vmfa_dask.em.ranges import refuse_row, refuse_values
from vmfa_dask.em.rows import Rows, read_ahead, refuse_non_finite, working_rows
from vmfa_dask.em.threads import Cores
from vmfa_dask.kernels import search, tallies
from vmfa_dask.kernels.moments import NEGLIGIBLE
from vmfa_dask.kernels.parameters import add_posterior_covariances
from vmfa_dask.values import Divergences, Int32, Int64, Mixture, Moments, NeighborGraph, RowTally, TruncatedPosterior


class PartialEStep:
    """The E-step of one shard group under one model version."""

    def __init__(self, context: RunContext, step: Step) -> None:
        self.context, self.step = context, step
        self.cores: Cores = context.cores
        self.mixture: Mixture = context.mixture(step.parameters)
        self.precision: Precision = context.precision(step.parameters)
        self.graph: NeighborGraph = context.graph(step.graph)
        self.alive = self.mixture.weights > 0
        self.watch = Stopwatch()
        self.moments: Moments | None = None
        self.divergences: Divergences | None = None
        self.tally = RowTally(0, 0, 0.0)

    def run(self, group: tuple[int, int], posterior: TruncatedPosterior) -> TruncatedPosterior:
        """Evaluate the rows of `group` from their posterior; returns the new one."""
        updated = np.empty_like(posterior.components)
        resting = None if posterior.resting is None else np.empty_like(posterior.resting)
        if self.step.update:
            self.moments = self._memory_of_moments(group)
        before = self.context.rows.bytes_read
        blocks = read_ahead(self.context.rows, *group, self.context.plan.block_rows)
        for first, block in self._timed(blocks):
            part = slice(first - group[0], first - group[0] + len(block))
            rows = working_rows(block, self.mixture.offset, self.mixture.means.dtype.name)
            if self.step.iteration == 0:
                refuse_values(self.context.rows, first, block, rows, self.context.settings.precision)
            known = posterior.rows(part)
            if self.context.settings.search == "exhaustive":
                state = evaluate_exhaustively(rows, self.precision, self.context, self.watch)
            else:
                state = self._evaluate(rows, first, known.components, self._rows_to_search(known, first))
            if not np.isfinite(state.free_energy).all():
                refuse_non_finite(self.context.rows, first, block)
                row = int(np.argmin(np.isfinite(state.free_energy)))
                refuse_row(self.context.rows, first + row, block[row], self.mixture)
            updated[part] = state.components
            if resting is not None:
                search.unchanged_rows(known.components, state.components, resting[part])
            if self.step.search:
                self._tally_divergences(state)
            if self.moments is not None:
                self._add_moments(rows, state, add=first > group[0])
            energy = float(np.sum(state.free_energy))
            self.tally += RowTally(len(block), state.n_joints, energy)
        if self.moments is not None:
            add_posterior_covariances(self.precision.cholesky, self.moments.counts, self.moments.factor_moments)
        self.tally += RowTally(0, 0, 0.0, self.watch.seconds, self.context.rows.bytes_read - before)
        return TruncatedPosterior(updated, resting)

    def _memory_of_moments(self, group: tuple[int, int]) -> Moments:
        """Where the group has one block of rows, its sums are rounded as they are written: no other is added."""
        one = self.context.plan.has_one_block(group)
        return self.context.empty_moments(self.context.settings.precision if one else "float64")

    def _rows_to_search(self, posterior: TruncatedPosterior, first_row: int) -> NDArray[np.uint8]:
        """Which rows of a block are searched in this pass, (n,) uint8."""
        settings = self.context.settings
        searched = np.full(len(posterior.components), self.step.search, np.uint8)
        if self.step.search and posterior.resting is not None:
            key = (settings.search_every, settings.random_state, self.step.iteration, first_row)
            search.rows_to_search(posterior.resting, *key, searched)
        return searched

    def _timed(self, blocks: Iterator[tuple[int, Rows]]) -> Iterator[tuple[int, Rows]]:
        while True:
            with self.watch.phase("read"):
                following = next(blocks, None)
            if following is None:
                return
            yield following

    def _evaluate(self, rows: Rows, first_row: int, components: Int32, searched: NDArray[np.uint8]) -> BlockState:
        """Blocks 1 and 4 of Algorithm 1 for the rows of one block."""
        settings = self.context.settings
        size = settings.search_size if self.step.search else settings.truncation
        state = BlockState.empty(len(rows), size, settings.truncation, self.context.memory)
        neighborhoods = np.array(settings.neighborhoods)
        with self.watch.phase("search"):
            self.cores.run(
                lambda a, b: search.search_spaces(
                    components,
                    searched,
                    self.graph.neighbors,
                    neighborhoods,
                    self.alive,
                    a,
                    b,
                    settings.random_candidates,
                    settings.random_state,
                    self.step.iteration,
                    first_row,
                    state.candidates,
                    state.sizes,
                ),
                self.cores.split(len(rows)),
            )
        members = self.context.memory.empty(state.log_joints.shape, np.int32)
        for start in range(0, len(rows), self.context.plan.tile_rows):
            self._evaluate_tile(rows, start, min(start + self.context.plan.tile_rows, len(rows)), state, members)
        with self.watch.phase("truncation"):
            self.cores.run(
                lambda a, b: search.truncate(
                    state.candidates,
                    state.sizes,
                    state.slots,
                    state.log_joints,
                    a,
                    b,
                    state.components,
                    state.responsibilities,
                    state.best,
                    state.free_energy,
                ),
                self.cores.split(len(rows)),
            )
        return state

    def _evaluate_tile(self, rows: Rows, start: int, stop: int, state: BlockState, members: Int32) -> None:
        """Log-joints of rows ``start:stop`` of the block with their candidates, one component after the other."""
        with self.watch.phase("search"):
            indptr = self._regroup(start, stop, state, members)
        with self.watch.phase("log_joints"):
            evaluate_joints(rows, members, indptr, self.precision, self.cores, state.log_joints)
        state.n_joints = int(indptr[-1])

    def _regroup(self, start: int, stop: int, state: BlockState, members: Int32) -> Int64:
        """Transpose the candidates of a tile; row ranges are scattered side by side, rows of a component in order."""
        c = self.mixture.n_components
        ranges = [(start + a, start + b) for a, b in self.cores.split(stop - start, parts_per_thread=1)]
        counts = np.zeros((len(ranges), c), np.int64)

        def count(a: int, b: int) -> None:
            search.count_by_component(state.candidates, state.sizes, a, b, counts[ranges.index((a, b))])

        def scatter(a: int, b: int) -> None:
            search.group_by_component(
                state.candidates, state.sizes, a, b, begins[ranges.index((a, b))], members, state.slots
            )

        self.cores.run(count, ranges)
        totals = counts.sum(axis=0)
        indptr = np.concatenate([[0], np.cumsum(totals)]) + state.n_joints
        begins = indptr[:-1] + np.cumsum(counts, axis=0) - counts
        self.cores.run(scatter, ranges)
        return indptr

    def _tally_divergences(self, state: BlockState) -> None:
        """Blocks 2 and 3 of Algorithm 1: partition rows by their best component, tally the estimated divergences."""
        with self.watch.phase("tallies"):
            c = self.mixture.n_components
            winners = state.components[:, 0]
            members = np.argsort(winners, kind="stable").astype(np.int32)
            indptr = np.concatenate([[0], np.cumsum(np.bincount(winners, minlength=c))])
            room = np.minimum(np.bincount(winners, weights=state.sizes, minlength=c).astype(np.int64), c)
            offsets = np.concatenate([[0], np.cumsum(room)])
            lengths, ids = np.zeros(c, np.int32), np.empty(offsets[-1], np.int32)
            sums, counts = np.empty(offsets[-1]), np.empty(offsets[-1], np.int64)
            shifts, own = self.precision.log_weights, state.best - self.precision.log_weights[winners]
            if self.context.settings.similarity == "joint":
                shifts, own = np.zeros_like(shifts), np.zeros_like(own)
            self.cores.run(
                lambda a, b: tallies.tally_divergences(
                    members,
                    indptr,
                    state.candidates,
                    state.sizes,
                    state.slots,
                    state.log_joints,
                    own,
                    shifts,
                    a,
                    b,
                    offsets[:-1],
                    lengths,
                    ids,
                    sums,
                    counts,
                ),
                self.cores.split_by_work(indptr),
            )
            used = np.repeat(offsets[:-1] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(
                lengths.sum()
            )
            part = Divergences(np.concatenate([[0], np.cumsum(lengths)]), ids[used], sums[used], counts[used])
            self.divergences = part if self.divergences is None else add_divergences(self.divergences, part)

    def _add_moments(self, rows: Rows, state: BlockState, add: bool) -> None:
        """Moments of the rows of a block under the components that matter to them, first ones or added."""
        assert self.moments is not None
        with self.watch.phase("moments"):
            row, rank = np.nonzero(state.responsibilities > NEGLIGIBLE)
            owner = state.components[row, rank]
            order = np.argsort(owner, kind="stable")
            members, weights = row[order].astype(np.int32), state.responsibilities[row[order], rank[order]]
            indptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=self.mixture.n_components))])
            means = self.mixture.means
            add_moments(rows, members, indptr, weights, self.precision, means, self.cores, add, self.moments)


def add_divergences(a: Divergences, b: Divergences) -> Divergences:
    """Sum of two tallies of the same components."""
    room = len(a.ids) + len(b.ids)
    indptr, ids = np.zeros_like(a.indptr), np.empty(room, np.int32)
    sums, counts = np.empty(room), np.empty(room, np.int64)
    n = tallies.add_tallies(
        a.indptr, a.ids, a.sums, a.counts, b.indptr, b.ids, b.sums, b.counts, indptr, ids, sums, counts
    )
    return Divergences(indptr, ids[:n].copy(), sums[:n].copy(), counts[:n].copy())
