"""Memory of this process and of those that it has started, while something runs."""

from __future__ import annotations

import threading
import time
from pathlib import Path

_EVERY = 0.25


def resident_bytes() -> int:
    """Resident memory of this process and its children; pages that several of them map count once.

    Returns
    -------
    int
        Proportional set sizes, in bytes.
    """
    return sum(_proportional(pid) for pid in _family())


def _family() -> list[str]:
    children: dict[str, list[str]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = status.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue  # it has ended
        children.setdefault(parent, []).append(status.parent.name)
    family = [str(Path("/proc/self").resolve().name)]
    for pid in family:
        family += children.get(pid, [])
    return family


def _proportional(pid: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


class MemoryCurve:
    """Samples of the memory, four a second, while the enclosed lines run.

    Attributes
    ----------
    samples : list of (float, int)
        Seconds since the begin, and bytes.
    """

    def __init__(self) -> None:
        self.samples: list[tuple[float, int]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        begin = time.perf_counter()
        while not self._end.wait(_EVERY):
            self.samples.append((time.perf_counter() - begin, resident_bytes()))

    @property
    def peak(self) -> int:
        """Largest sample, in bytes."""
        return max((size for _, size in self.samples), default=0)

    def __enter__(self) -> MemoryCurve:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()
