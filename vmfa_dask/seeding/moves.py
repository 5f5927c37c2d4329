"""Moves for components that are stuck: one that covers two groups of rows is split, one that is not needed goes.

EM cannot move a component through a region without rows, so a group that got no seed stays under a neighbour's
component while another group is shared by two. The total number of components stays. In the spirit of the split and
merge EM of Ueda et al. (2000); what a move gains is estimated here from the best split of a component's rows along one
direction, without any EM. May import: numpy, values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vmfa_dask.values import Float64, Int64

# Axes of a component's rows, and steps of the power iteration that finds them.
_N_AXES, _N_STEPS = 2, 12
# Rows that each half of a split must have: fewer make a group by chance.
_FEWEST_ROWS = 5


@dataclass(frozen=True)
class Split:
    """The best way to split the rows of a component.

    Parameters
    ----------
    gain : float
        Estimated gain of Σ log p(x), in nats.
    rows, rest : int64 arrays
        Row numbers of the two halves.
    """

    gain: float
    rows: Int64
    rest: Int64


@dataclass(frozen=True)
class Move:
    """Component `removed` becomes one half of component `split`; component `heir` takes over its rows.

    Parameters
    ----------
    split, removed, heir : int
        Numbers of the components.
    halves : Split
        The halves of `split`.
    """

    split: int
    removed: int
    heir: int
    halves: Split


def propose_moves(x: Float64, joints: Float64, means: Float64, noise_variances: Float64) -> list[Move]:
    """Moves that should raise the free energy, the best first; no component takes part in two.

    Parameters
    ----------
    x : (n, D) float64 array
        Rows.
    joints : (C, n) float64 array
        Log-joints of all components, −inf for dropped ones.
    means, noise_variances : (C, D) float64 arrays
        Parameters.

    Returns
    -------
    list of Move
    """
    c = len(joints)
    if c < 2:
        return []
    # Those of most components: one that covers two groups takes their distance for noise.
    deviations = np.sqrt(np.median(noise_variances, axis=0))
    owners = joints.argmax(axis=0)
    losses, heirs = _losses(joints, owners)
    members = [np.flatnonzero(owners == k) for k in range(c)]
    splits = [_best_split(x, members[k], deviations) for k in range(c)]
    for k, heir in enumerate(heirs.tolist()):
        line = means[k] - means[heir]
        losses[k] = min(losses[k], _joining_loss(x, members[k], members[heir], line, deviations))
    moves: list[Move] = []
    busy: set[int] = set()
    givers = np.argsort(losses, kind="stable").tolist()
    for k in sorted(range(c), key=lambda k: -splits[k].gain):
        for removed in givers:
            heir, empty = int(heirs[removed]), not len(members[removed])
            parties = {k, removed} if empty else {k, removed, heir}
            if not busy & parties and k not in (removed, None if empty else heir):
                if splits[k].gain > losses[removed]:
                    moves.append(Move(k, removed, heir, splits[k]))
                    busy |= parties
                break
    return moves


def _losses(joints: Float64, owners: Int64) -> tuple[Float64, Int64]:
    """What Σ log p(x) loses without each component (C,), and the component that its rows like second best."""
    c, n = joints.shape
    columns = np.arange(n)
    others = joints.copy()
    others[owners, columns] = -np.inf
    second = others.argmax(axis=0)
    best, runner_up = joints[owners, columns], others[second, columns]
    rest = runner_up + np.log(np.exp(others - runner_up).sum(axis=0))
    total = np.logaddexp(best, rest)
    losses = np.bincount(owners, weights=total - rest, minlength=c).astype(np.float64)
    shares = np.exp(others - total)  # of components that do not own the row: at most a half
    losses -= np.log1p(-np.minimum(shares, 0.5)).sum(axis=1)
    votes = np.bincount(owners * c + second, minlength=c * c).reshape(c, c)
    np.fill_diagonal(votes, -1)
    heirs: Int64 = votes.argmax(axis=1)
    return losses, heirs


def _best_split(x: Float64, members: Int64, deviations: Float64) -> Split:
    """The best split of a component's rows along their main axes, in units of the noise (D,)."""
    nothing = Split(-np.inf, members, members[:0])
    if len(members) < 2 * _FEWEST_ROWS:
        return nothing
    u = x[members] / deviations
    u -= u.mean(axis=0)
    best = nothing
    for _ in range(_N_AXES):
        axis = _main_axis(u)
        projected = np.einsum("nd,d->n", u, axis)
        gain, place, order = split_gain(projected)
        if gain > best.gain:
            best = Split(gain, members[order[:place]], members[order[place:]])
        u -= projected[:, None] * axis
    return best


def _main_axis(u: Float64) -> Float64:
    """Direction of largest variance of centred rows (n, D), by power iteration.

    Without BLAS: its bits depend on the number of its threads.
    """
    axis: Float64 = _unit(u[np.argmax(np.einsum("nd,nd->n", u, u))])
    for _ in range(_N_STEPS):
        axis = _unit(np.einsum("nd,n->d", u, np.einsum("nd,d->n", u, axis)))
    return axis


def _unit(vector: Float64) -> Float64:
    """The vector (D,) at length 1; zero stays zero."""
    length = float(np.sqrt(np.einsum("d,d->", vector, vector)))
    return vector / length if length > 0 else vector


def split_gain(values: Float64) -> tuple[float, int, Int64]:
    """Gain of two Gaussians over one for numbers that are split at the best threshold.

    Log-likelihood where each part has its own mean, variance and weight: negative for a single Gaussian, whose halves
    cost more in weights than they gain in variances.

    Parameters
    ----------
    values : (n,) float64 array
        The numbers.

    Returns
    -------
    float, int, (n,) int64 array
        Nats in all, the number of values in the lower part, and the order of the values.
    """
    n = len(values)
    order = np.argsort(values, kind="stable")
    y = values[order]
    total = max(float(np.var(y)), 1e-300)
    lower = np.arange(_FEWEST_ROWS, n - _FEWEST_ROWS + 1)
    sums, squares = np.cumsum(y), np.cumsum(y * y)
    gains = 0.5 * n * np.log(total)
    for count, s, q in (
        (lower, sums[lower - 1], squares[lower - 1]),
        (n - lower, sums[-1] - sums[lower - 1], squares[-1] - squares[lower - 1]),
    ):
        variance = np.maximum(q / count - (s / count) ** 2, 1e-3 * total)
        gains = gains + count * (np.log(count / n) - 0.5 * np.log(variance))
    place = int(np.argmax(gains))
    return float(gains[place]), int(lower[place]), order


def _joining_loss(x: Float64, a: Int64, b: Int64, direction: Float64, deviations: Float64) -> float:
    """What Σ log p(x) loses when one Gaussian takes the rows of two, along the line between their means."""
    members = np.concatenate([a, b])
    if len(members) < 2 * _FEWEST_ROWS:
        return 0.0
    projected = np.einsum("nd,d->n", x[members] / deviations, direction / deviations)
    return max(split_gain(projected)[0], 0.0)
