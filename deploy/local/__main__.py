"""``python -m deploy.local``: print the layout that suits this machine; ``--start`` runs it until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from deploy.local.cluster import ClusterFailed, run
from deploy.local.layout import Layout, recommend
from deploy.local.machine import this_machine


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        0, or 1 when the cluster did not start or lost a process.
    """
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    parser.add_argument("--start", action="store_true", help="start scheduler and workers, and wait for Ctrl-C")
    parser.add_argument("--port", type=int, default=8786, help="of the scheduler; 0 takes a free one (default 8786)")
    parser.add_argument("--dashboard-port", type=int, default=8787, help="0 takes a free one (default 8787)")
    parser.add_argument("--local-directory", help="folder for Dask's own files, on a fast local disk")
    options = parser.parse_args(arguments)
    layout = recommend(this_machine())
    print(description(layout), flush=True)
    if not options.start:
        return 0
    try:
        run(layout, options.port, options.dashboard_port, options.local_directory)
    except ClusterFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def description(layout: Layout) -> str:
    """The layout as text.

    Parameters
    ----------
    layout : Layout
        Workers and reasons.

    Returns
    -------
    str
        A line for each worker, then the reasons.
    """
    lines = [
        f"worker on NUMA node {worker.node}: {worker.threads} threads on cores {_ranges(worker.cores)}, "
        f"memory limit {worker.memory_limit / 2**30:.1f} GiB"
        for worker in layout.workers
    ]
    return "\n".join([*lines, *(f"- {reason}" for reason in layout.reasons)])


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3,8`` of 0, 1, 2, 3 and 8."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


if __name__ == "__main__":
    sys.exit(main())
