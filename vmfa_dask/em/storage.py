"""Where versions of parameters, graphs and posteriors live between tasks.

Everything is written once under (kind, version, block) and never changed, so a task that runs twice writes the same.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]

PARAMETERS, GRAPH, POSTERIOR, START = "parameters", "graph", "posterior", "start"
# Distances to the nearest seed while k-means++ draws the next one.
NEAREST = "nearest"
# Sums over the rows of each group, on their way to the updates of one pass.
MOMENTS = "moments"


class Storage(Protocol):
    """Named arrays by kind, version and block."""

    @property
    def maps_memory(self) -> bool:
        """Whether what other processes have written is mapped from the memory of this machine."""
        ...

    def write(self, kind: str, version: int, block: int, arrays: Arrays) -> None: ...

    def read(self, kind: str, version: int, block: int) -> Arrays:
        """Read-only arrays as they were written; KeyError when they are missing."""
        ...

    def discard(self, kind: str, version: int) -> None:
        """Forget a version; nothing happens when it is not there."""
        ...


class MemoryStorage:
    """Versions in the memory of this process, for a driver and workers that share it."""

    maps_memory = False  # results of tasks are here already

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, int, int], Arrays] = {}
        self._lock = threading.Lock()

    def write(self, kind: str, version: int, block: int, arrays: Arrays) -> None:
        """Keep the arrays themselves; they become read-only."""
        for array in arrays.values():
            array.flags.writeable = False
        with self._lock:
            self._arrays[kind, version, block] = dict(arrays)

    def read(self, kind: str, version: int, block: int) -> Arrays:
        """The arrays that were written."""
        with self._lock:
            return self._arrays[kind, version, block]

    def discard(self, kind: str, version: int) -> None:
        """Drop the references."""
        with self._lock:
            for key in [key for key in self._arrays if key[:2] == (kind, version)]:
                del self._arrays[key]
