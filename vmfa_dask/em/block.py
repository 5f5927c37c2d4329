"""Work arrays of one block of rows on its way through the E-step, and the clock of its phases.

May import: values, memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from vmfa_dask.memory import Memory
from vmfa_dask.values import Float64, Int32, Int64


class Stopwatch:
    """Seconds per phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the enclosed lines to a phase."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass
class BlockState:
    """Work arrays of one block of n rows: its search spaces and what their evaluation gave."""

    candidates: Int32  # (n, S)
    sizes: Int32  # (n,)
    slots: Int32 | Int64  # (n, S), where the log-joint of a candidate lies
    log_joints: Float64  # (J,) grouped by tile and component
    components: Int32  # (n, C')
    responsibilities: Float64  # (n, C')
    best: Float64  # (n,)
    free_energy: Float64  # (n,)
    n_joints: int = 0

    @classmethod
    def empty(cls, n_rows: int, search_size: int, truncation: int, memory: Memory) -> BlockState:
        """Unwritten arrays; pages that stay untouched cost no memory."""
        shape, kept = (n_rows, search_size), (n_rows, truncation)
        slot = np.int32 if n_rows * search_size < 2**31 else np.int64
        return cls(
            memory.empty(shape, np.int32),
            memory.empty((n_rows,), np.int32),
            memory.empty(shape, slot),
            memory.empty((n_rows * search_size,), np.float64),
            memory.empty(kept, np.int32),
            memory.empty(kept, np.float64),
            memory.empty((n_rows,), np.float64),
            memory.empty((n_rows,), np.float64),
        )
