"""Evaluation of every component for every row: exact EM, and EM with the best possible truncation (paper, K_n^opt).

May import: values, kernels, runtime, em.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask.em.evaluation import evaluate_all_joints
from vmfa_dask.em.packed import PackedMixture
from vmfa_dask.em.row_block import RowBlock
from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels.truncation import truncate_all
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.clock import Stopwatch
from vmfa_dask.runtime.threads import Cores


def evaluate_exhaustively(
    rows: Rows, packed: PackedMixture, truncation: int, cores: Cores, buffers: BufferPool, watch: Stopwatch
) -> RowBlock:
    """Kept components, responsibilities and free energy of a row block, from all log-joints.

    Parameters
    ----------
    rows : (n, D) array
        Rows as `em.rows.working_rows` returns them.
    packed : PackedMixture
        The mixture.
    truncation : int
        C', components to keep per row.
    cores, buffers : Cores, BufferPool
        Threads and memory of this process.
    watch : Stopwatch
        Gets the seconds of the phases "log_joints" and "truncation".

    Returns
    -------
    RowBlock
        Without candidates: every component is one.
    """
    # No candidates and no slots: all C joints of a row lie in one array, which is freed when this returns.
    block = RowBlock.empty(len(rows), 0, truncation, buffers)
    truncated = block.truncated
    with watch.phase("log_joints"):
        joints = evaluate_all_joints(rows, packed, cores, buffers)
    # Rows are divided now, not components: each row needs all its joints, in a column of them.
    with watch.phase("truncation"):
        cores.run(lambda a, b: truncate_all(joints, a, b, truncated), cores.split(len(rows), len(joints)))
    # Dropped components take part in the loop, but their joints are −∞ and count as no work.
    block.n_joints = len(rows) * int(np.isfinite(packed.log_weights).sum())
    return block
