"""Cores for the threads of a command. Imports the standard library only."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Count the cores that this process may run on.

    Returns
    -------
    int
        At least 1.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
