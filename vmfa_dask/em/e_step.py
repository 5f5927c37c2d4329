"""The partial variational E-step (paper, Algorithm 1): row blocks in, sums over their rows out.

How rows find their components is in `guided` and `exhaustive`. May import: values, kernels, runtime, em.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vmfa_dask.em.exhaustive import evaluate_exhaustively
from vmfa_dask.em.guided import GuidedSearch, SearchOptions
from vmfa_dask.em.moments import MomentSum
from vmfa_dask.em.packed import ModelVersion
from vmfa_dask.em.rows import Rows
from vmfa_dask.em.tallies import DivergenceSum
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.clock import Stopwatch
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Divergences, Moments, RowTally, Statistics, TruncatedPosterior


class NoFiniteDensity(ArithmeticError):
    """No component gives a row a finite log-joint.

    Parameters
    ----------
    first_row : int
        Number of the first row of its row block.
    row : int
        Its index in the row block.
    """

    def __init__(self, first_row: int, row: int) -> None:
        super().__init__(f"row {first_row + row} has no finite log-joint")
        self.first_row, self.row = first_row, row


@dataclass(frozen=True)
class PartialSums:
    """What a partial E-step makes of its rows.

    Parameters
    ----------
    version : int
        Version of the parameters.
    posterior : TruncatedPosterior
        New kept components of the rows.
    moments : Moments or None
        None where none were wanted.
    divergences : Divergences or None
        None where no search took place.
    tally : RowTally
        Rows, log-joints and free energy.
    """

    version: int
    posterior: TruncatedPosterior
    moments: Moments | None
    divergences: Divergences | None
    tally: RowTally

    def statistics(self, start: int, stop: int) -> Statistics:
        """What the rows contribute to components ``start:stop``.

        Parameters
        ----------
        start, stop : int
            A component block.

        Returns
        -------
        Statistics
            Views of the sums.
        """
        moments = self.moments.block(start, stop) if self.moments else None
        divergences = self.divergences.block(start, stop) if self.divergences else None
        return Statistics(self.version, start, stop, moments, divergences)


def partial_e_step(
    blocks: Iterable[tuple[int, Rows]],
    posterior: TruncatedPosterior,
    model: ModelVersion,
    options: SearchOptions,
    moments: MomentSum | None,
    cores: Cores,
    buffers: BufferPool,
    watch: Stopwatch,
) -> PartialSums:
    """The E-step of some row blocks under one model version.

    Parameters
    ----------
    blocks : iterable of (int, (n, D) array)
        Number of the first row of each row block, and its rows as `em.rows.working_rows` returns them; in order,
        without gaps.
    posterior : TruncatedPosterior
        Kept components of all these rows.
    model : ModelVersion
        What they are evaluated with.
    options : SearchOptions
        How search spaces are made. Divergences are tallied where the pass searches.
    moments : MomentSum or None
        Empty sums of the moments; None where none are wanted.
    cores, buffers : Cores, BufferPool
        Threads and memory of this process.
    watch : Stopwatch
        Gets the seconds of each phase.

    Returns
    -------
    PartialSums

    Raises
    ------
    NoFiniteDensity
        If no component gives a row a finite log-joint.
    """
    guided = GuidedSearch(model, options, cores, buffers, watch)
    kept, tally = posterior.empty_like(), RowTally(0, 0, 0.0)
    divergences = DivergenceSum(model, options.by_divergence, cores, buffers) if options.search else None
    for first_row, rows in blocks:
        part = slice(tally.n_rows, tally.n_rows + len(rows))
        # A RowBlock is all that the two ways of finding components have in common; everything below works on either.
        if options.exhaustive:
            block = evaluate_exhaustively(rows, model.packed, options.truncation, cores, buffers, watch)
        else:
            block = guided.evaluate(rows, first_row, posterior.rows(part))
        # Checked before anything is added: one NaN in a sum would stay in the parameters for good.
        finite = np.isfinite(block.free_energy)
        if not finite.all():
            raise NoFiniteDensity(first_row, int(np.argmin(finite)))
        kept.put(part, TruncatedPosterior(block.components, block.resting))
        if moments is not None:
            with watch.phase("moments"):
                moments.add(rows, block)
        if divergences is not None:
            with watch.phase("tallies"):
                divergences.add(block)
        # Free energies are float64 in either precision, and NumPy adds them pairwise: a pass is judged by small
        # differences.
        tally += RowTally(len(rows), block.n_joints, float(np.sum(block.free_energy)))
        del block  # its buffers serve the next one
    summed: Moments | None = None
    if moments is not None:
        with watch.phase("moments"):
            summed = moments.total(model.mixture.means.dtype.name)
    tallied: Divergences | None = None
    if divergences is not None:
        with watch.phase("tallies"):
            tallied = divergences.total()
    return PartialSums(model.mixture.version, kept, summed, tallied, tally)
