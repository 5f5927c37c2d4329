"""Command lines: progress on the error stream, a cluster if one is asked for, and errors as one line.

Imports `source_files`, `tasks` and the standard library.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from vmfa_dask.data_prep.source_files import error_line
from vmfa_dask.data_prep.tasks import with_cluster


def run_command(command: Callable[[Any], None], cluster: str | None) -> int:
    """Do the work of a command.

    Parameters
    ----------
    command : callable
        Given a client of the cluster or None; prints its result.
    cluster : str, optional
        URL of a Dask scheduler.

    Returns
    -------
    int
        The exit code: 1 after an error, which is printed as one line.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        with_cluster(cluster, command)
    except (ValueError, OSError, ImportError, MemoryError) as error:
        print(error_line(error), file=sys.stderr)
        return 1
    return 0
