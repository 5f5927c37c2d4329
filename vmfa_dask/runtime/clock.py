"""Seconds per phase of a computation. May import: the standard library."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Stopwatch:
    """Adds up wall-clock seconds by phase in `seconds`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the duration of the `with` block to a phase.

        Parameters
        ----------
        name : str
            The phase.

        Yields
        ------
        None
        """
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def timed(self, name: str, items: Iterator[T]) -> Iterator[T]:
        """Hand on items, and add the time that each takes to arrive to a phase.

        Parameters
        ----------
        name : str
            The phase.
        items : iterator
            What to wait for.

        Yields
        ------
        item
        """
        while True:
            with self.phase(name):
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item
