"""Signals that ask for the end of a process: a fit ends by them as by Ctrl-C, and removes what it has put on disk."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# What batch systems and terminals that are closed send; where a system lacks one, nothing sends it.
_NAMES = ("SIGTERM", "SIGHUP")
# What a shell reports for a process that a signal has ended.
_EXIT = 128
# Signals that come so shortly after one another are one wish. (Python drops what is raised in some moments, as while an
# object is destroyed: a later one must count again.)
_CLEANING_SECONDS = 10.0


@contextmanager
def ending_by_signals() -> Iterator[None]:
    """Let a signal that would kill this process at once raise `SystemExit` in the enclosed lines instead.

    Only in the main thread, and only where nobody has decided what the signal does. Others that follow at once do not
    disturb the lines as they clean up.
    """
    taken: dict[int, Any] = {}
    last = -math.inf

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _CLEANING_SECONDS:
            last = now
            raise SystemExit(_EXIT + number)

    if threading.current_thread() is threading.main_thread():
        for name in _NAMES:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                taken[number] = signal.SIG_DFL
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, before in taken.items():
            if signal.getsignal(number) is end:
                signal.signal(number, before)
