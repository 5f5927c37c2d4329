"""What one pass over the rows does. May import: the standard library."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One pass over the rows.

    Parameters
    ----------
    iteration : int
        Number of the pass; it reads the posteriors of `iteration` and writes those of ``iteration + 1``.
    parameters, graph : int
        Versions of the mixture and of the neighbour graph to use.
    search : bool
        Evaluate search spaces and update g_c; without it only the kept components are evaluated.
    update : bool
        Compute moments and update the parameters.
    """

    iteration: int
    parameters: int
    graph: int
    search: bool
    update: bool
