"""Work arrays of one row block on its way through the E-step. May import: values, kernels, runtime."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.kernels.arguments import SearchSpaces, Truncated
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.values import Float64, Int32, Int64

_OPERATIONS_PER_CANDIDATE = 10


@dataclass
class RowBlock:
    """Search spaces of n rows, and the result of evaluating them.

    Parameters
    ----------
    candidates : (n, S) int32 array
        Components to evaluate for each row (the search space S_n).
    sizes : (n,) int32 array
        Number of candidates of each row.
    slots : (n, S) int32 or int64 array
        Index into `log_joints` of each candidate.
    log_joints : (J,) float64 array
        log p(c, x) of every row with its candidates, grouped by tile and component.
    by_row : (n, S) float64 array
        The same in the order of `candidates`.
    components : (n, C') int32 array
        Kept components K_n, best first.
    responsibilities : (n, C') float64 array
        Their responsibilities.
    best : (n,) float64 array
        Largest log-joint of each row.
    free_energy : (n,) float64 array
        log Σ p(c, x) over the kept components, in nats.
    n_joints : int
        Number of log-joints that were evaluated.
    resting : (n,) uint8 array or None
        Rows whose kept components came out of their last search unchanged; None where every row is searched in every
        pass.
    """

    candidates: Int32
    sizes: Int32
    slots: Int32 | Int64
    log_joints: Float64
    by_row: Float64
    components: Int32
    responsibilities: Float64
    best: Float64
    free_energy: Float64
    n_joints: int = 0
    resting: NDArray[np.uint8] | None = None

    @property
    def spaces(self) -> SearchSpaces:
        """Search spaces in the form that kernels take."""
        return SearchSpaces(self.candidates, self.sizes, self.slots, self.log_joints, self.by_row)

    @property
    def truncated(self) -> Truncated:
        """Kept components in the form that kernels take."""
        return Truncated(self.components, self.responsibilities, self.best, self.free_energy)

    @property
    def operations(self) -> int:
        """Arithmetic operations per row of a step that only looks at the candidates, roughly."""
        return _OPERATIONS_PER_CANDIDATE * int(self.candidates.shape[1])

    @classmethod
    def empty(cls, n_rows: int, search_size: int, truncation: int, buffers: BufferPool) -> RowBlock:
        """Unwritten arrays for a block.

        Parameters
        ----------
        n_rows, search_size, truncation : int
            n, S and C'.
        buffers : BufferPool
            Where the arrays come from. Pages that are never touched cost no memory.

        Returns
        -------
        RowBlock
        """
        spaces, kept = (n_rows, search_size), (n_rows, truncation)
        # Slots are looked up for every candidate, so they are as narrow as the number of candidates allows.
        slot = np.int32 if n_rows * search_size < 2**31 else np.int64
        # From the pool: fresh arrays of this size would fault in their pages with every row block.
        return cls(
            buffers.empty(spaces, np.int32),
            buffers.empty((n_rows,), np.int32),
            buffers.empty(spaces, slot),
            buffers.empty((n_rows * search_size,), np.float64),
            buffers.empty(spaces, np.float64),
            buffers.empty(kept, np.int32),
            buffers.empty(kept, np.float64),
            buffers.empty((n_rows,), np.float64),
            buffers.empty((n_rows,), np.float64),
        )
