"""Search spaces, truncation and tallies as the paper's Algorithm 1 states them, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence


def search_space(
    kept: Iterable[int], neighbors: Sequence[Sequence[int]], alive: Sequence[bool], random: Iterable[int]
) -> set[int]:
    """S_n: the union of g_c over the kept components, and random candidates (paper, eq:GGnSet).

    Parameters
    ----------
    kept : numbers of components, −1 for padding
    neighbors : g_c of each component, −1 for padding
    alive : whether each component may be proposed
    random : numbers of components

    Returns
    -------
    set of int
        Only components that are alive.
    """
    union = {int(other) for c in kept if c >= 0 for other in neighbors[c] if other >= 0} | {int(c) for c in random}
    return {c for c in union if alive[c]}


def truncate(log_joints: Mapping[int, float], n_kept: int) -> tuple[list[int], list[float], float]:
    """K_n and what follows from it (paper, alg:estep, blocks 1 and 4).

    Parameters
    ----------
    log_joints : log-joint of each candidate
    n_kept : C'

    Returns
    -------
    components : list of int
        The largest joints first, ties by number.
    responsibilities : list of float
    free_energy : float
        log Σ p(c, x) over the kept ones; −inf without candidates.
    """
    kept = sorted(log_joints, key=lambda c: (-log_joints[c], c))[:n_kept]
    if not kept:
        return [], [], -math.inf
    shift = log_joints[kept[0]]
    total = math.fsum(math.exp(log_joints[c] - shift) for c in kept)
    return kept, [math.exp(log_joints[c] - shift) / total for c in kept], shift + math.log(total)


def tally(
    rows: Sequence[Mapping[int, float]], log_weights: Sequence[float], similarity: str = "kl"
) -> dict[tuple[int, int], tuple[float, int]]:
    """Tallies of every pair of components that occurs, over the rows whose best component is the first of the two.

    Parameters
    ----------
    rows : for each row a mapping from its candidates to their log-joints
    log_weights : log π
    similarity : "kl" sums log p(x|c) − log p(x|c̃) (paper, eq:deltaF), "joint" −log p(c̃, x) (eq:euclidean_distance)

    Returns
    -------
    dict
        (D̃_cc̃, N_cc̃) of each pair (c, c̃).
    """
    totals: dict[tuple[int, int], tuple[float, int]] = {}
    for joints in rows:
        best = min(joints, key=lambda c: (-joints[c], c))
        for other, value in joints.items():
            if other != best:
                divergence = (joints[best] - log_weights[best]) - (value - log_weights[other])
                difference = divergence if similarity == "kl" else -value
                total, count = totals.get((best, other), (0.0, 0))
                totals[best, other] = total + difference, count + 1
    return totals


def nearest(
    component: int, totals: Mapping[tuple[int, int], tuple[float, int]], old: Sequence[int], size: int
) -> list[int]:
    """g_c: the component and the others of smallest mean difference (paper, eq:GUpdate).

    Parameters
    ----------
    component : number of the component
    totals : tallies, as from `tally`
    old : its neighbours until now
    size : G

    Returns
    -------
    list of int
        −1 for padding; `old` where no row prefers the component.
    """
    means = {other: total / count for (c, other), (total, count) in totals.items() if c == component}
    if not means:
        return list(old)
    chosen = [component, *sorted(means, key=lambda c: (means[c], c))[: size - 1]]
    return chosen + [-1] * (size - len(chosen))
