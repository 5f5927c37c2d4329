"""Screening: candidates of a row are compared on a part of the features, and the best of them evaluated on all.

The part is another one in each pass, so that a component that one pass misses is met again by other features. Kept
components are always evaluated on all features: the free energy of a row never falls by screening. May import: values,
kernels, runtime, em.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask.em.packed import PackedMixture, Screening
from vmfa_dask.em.row_block import RowBlock
from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels.arguments import Regrouped
from vmfa_dask.kernels.projections import N_PARTS, RUN_FEATURES
from vmfa_dask.kernels.screening import Marginals, estimated_joints, marginalize
from vmfa_dask.kernels.selection import anchor_estimates, select_candidates
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Int32, Int64

# Rows of fewer features have a part without any.
FEWEST_FEATURES = N_PARTS * RUN_FEATURES
# Candidates that are evaluated on all features, beside kept components that are not among them: so many more than C'.
_MORE_THAN_KEPT = 2
# A tile is cut for screening, so that what a part has of its rows nearly fits the second-level cache: ten passes of
# CIFAR-10 (C = 800) took 4.5 s instead of 5.8 in cuts of a quarter. Each component should have some rows in a cut, or
# its parameters would be most of what is read.
_MOST_CUTS, _ROWS_PER_COMPONENT = 4, 32


def part_of_pass(iteration: int, search_every: int) -> int:
    """The part on which a pass compares candidates.

    Parameters
    ----------
    iteration : int
        Number of the pass.
    search_every : int
        R; a row that rests is searched in every R-th pass.

    Returns
    -------
    int
        From 0 to 3; for R passes in turn, and for every R-th pass, another one each time.
    """
    # Every R-th pass advances by an odd number of parts: by R, or by R + 1 where R is even.
    return (iteration + (iteration // search_every if search_every % 2 == 0 else 0)) % N_PARTS


def screening_of(packed: PackedMixture, n_features: int, part: int, cores: Cores) -> Screening:
    """Marginals of a model version, in O(C·D·H²/4).

    Parameters
    ----------
    packed : PackedMixture
        The model version.
    n_features : int
        D.
    part : int
        Which of the parts.
    cores : Cores
        Threads of this process.

    Returns
    -------
    Screening
    """
    c, h = packed.cholesky.shape[:2]
    runs = np.arange(n_features) // RUN_FEATURES
    n_part = int(np.count_nonzero((runs - runs // N_PARTS**2) % N_PARTS == part))
    marginals = Marginals(np.empty(c), np.empty((c, h, h)), n_features / n_part)
    parameters, log_weights = packed.parameters, packed.log_weights
    cores.run(
        lambda a, b: marginalize(parameters, log_weights, n_features, part, a, b, marginals),
        cores.split(c, n_part * (h + 1) ** 2),
    )
    return Screening(part, marginals)


def screened_rows(n_rows: int, search_size: int, n_components: int) -> int:
    """Rows of a tile that are screened together.

    Parameters
    ----------
    n_rows : int
        Rows of the tile.
    search_size : int
        S, the most candidates of a row.
    n_components : int
        C.

    Returns
    -------
    int
    """
    most = n_rows * search_size // (_ROWS_PER_COMPONENT * n_components)
    return -(-n_rows // max(1, min(_MOST_CUTS, most)))


def estimate_joints(
    rows: Rows,
    members: Int32,
    indptr: Int64,
    packed: PackedMixture,
    screening: Screening,
    cores: Cores,
    block: RowBlock,
) -> None:
    """Log-joints of every component with the rows that ask for it, estimated from a part of the features.

    Parameters
    ----------
    rows : (n, D) array
        Rows as `em.rows.working_rows` returns them.
    members, indptr
        Rows of each component, as in `em.evaluation.evaluate_joints`.
    packed : PackedMixture
        The mixture.
    screening : Screening
        Its marginals.
    cores : Cores
        Threads of this process.
    block : RowBlock
        Its `log_joints` get the estimates, in the order of `members`.
    """
    regrouped, parameters, joints = Regrouped(members, indptr), packed.parameters, block.log_joints
    part, marginals = screening.part, screening.marginals
    cores.run(
        lambda a, b: estimated_joints(rows, regrouped, part, a, b, parameters, marginals, joints),
        cores.split_by_work(indptr, 2 * int(packed.packed[0].size) // N_PARTS),
    )


def select(block: RowBlock, components: Int32, start: int, stop: int, cores: Cores, out_sizes: Int32) -> None:
    """Choose the candidates of some rows that are evaluated on all features, and put them first.

    Parameters
    ----------
    block : RowBlock
        With estimates of all candidates of these rows.
    components : (n, C') int32 array
        Kept components of the rows of the block.
    start, stop : int
        Range of rows.
    cores : Cores
        Threads of this process.
    out_sizes : (n,) int32 array
        Written for these rows: how many candidates were chosen.
    """
    spaces, n_best = block.spaces, components.shape[1] + _MORE_THAN_KEPT
    ranges = [(start + a, start + b) for a, b in cores.split(stop - start, block.operations)]
    cores.run(lambda a, b: select_candidates(components, spaces, n_best, a, b, out_sizes), ranges)


def anchor(block: RowBlock, evaluated: Int32, cores: Cores) -> None:
    """Let the estimates of a block be comparable with its log-joints (see `kernels.selection.anchor_estimates`).

    Parameters
    ----------
    block : RowBlock
        With log-joints of the chosen candidates, and estimates of all.
    evaluated : (n,) int32 array
        How many candidates of each row were chosen.
    cores : Cores
        Threads of this process.
    """
    spaces = block.spaces
    cores.run(
        lambda a, b: anchor_estimates(spaces, evaluated, a, b), cores.split(len(block.candidates), block.operations)
    )
