"""Evaluation of every component for every row: exact EM, and EM with the best truncation there is (paper, K_n^opt).

May import: values, kernels, em.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask.em.block import BlockState, Stopwatch
from vmfa_dask.em.context import RunContext
from vmfa_dask.em.evaluation import evaluate_all_joints
from vmfa_dask.em.precision import Precision
from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels import search


def evaluate_exhaustively(rows: Rows, precision: Precision, context: RunContext, watch: Stopwatch) -> BlockState:
    """Kept components, responsibilities and free energy of a block of rows, from all joints."""
    cores = context.cores
    state = BlockState.empty(len(rows), 0, context.settings.truncation, context.memory)
    with watch.phase("log_joints"):
        joints = evaluate_all_joints(rows, precision, cores, context.memory)
    with watch.phase("truncation"):
        cores.run(
            lambda a, b: search.truncate_all(
                joints, a, b, state.components, state.responsibilities, state.best, state.free_energy
            ),
            cores.split(len(rows)),
        )
    state.n_joints = len(rows) * int(np.isfinite(precision.log_weights).sum())
    return state
