"""Posteriors of components: dense, or those of the best components of each row.

May import: sizes, values, runtime, kernels, em, apply, numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vmfa_dask.apply.joints import ExactJoints
from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels.arguments import Truncated
from vmfa_dask.kernels.truncation import truncate_all
from vmfa_dask.sizes import Sized
from vmfa_dask.values import Float64, Int32


@dataclass(frozen=True)
class SparseProbabilities(Sized):
    """Posteriors of the best C' components of each row.

    Parameters
    ----------
    components : (n, C') int32 array
        Numbers of components, the most probable first.
    probabilities : (n, C') float64 array
        Their posteriors, normalised over the C' kept ones: each row sums to 1 (paper, eq:qnc). Times `captured` they
        are the exact ones.
    captured : (n,) float64 array
        Posterior mass of the kept components among all C: 1 where nothing is left out.

    Examples
    --------
    >>> import numpy as np
    >>> from vmfa_dask import MixtureModel
    >>> model = MixtureModel([0.5, 0.25, 0.25], [[0.0], [4.0], [90.0]], np.zeros((3, 0, 1)), np.ones((3, 1)))
    >>> kept = model.predict_proba([[0.0], [3.0]], truncation=2)
    >>> kept.components
    array([[0, 1],
           [1, 0]], dtype=int32)
    >>> kept.to_dense(3).round(3)
    array([[1.   , 0.   , 0.   ],
           [0.035, 0.965, 0.   ]])
    """

    components: Int32
    probabilities: Float64
    captured: Float64

    def to_dense(self, n_components: int) -> Float64:
        """Spread the probabilities over all components; those that were left out get 0.

        Parameters
        ----------
        n_components : int
            C of the model.

        Returns
        -------
        (n, C) float64 array
            Each row sums to 1.

        Raises
        ------
        ValueError
            When a kept component has no column.
        """
        if self.components.size and n_components <= self.components.max():
            raise ValueError(f"n_components={n_components}: expected at least {int(self.components.max()) + 1}")
        dense = np.zeros((len(self.components), n_components))
        np.put_along_axis(dense, self.components.astype(np.int64), self.probabilities, axis=1)
        return dense


def log_sum(joints: Float64) -> Float64:
    """Logarithm of the sum of joints over the components.

    Parameters
    ----------
    joints : (C, n) float64 array
        Log-joints in nats.

    Returns
    -------
    (n,) float64 array
        Nats. A column's sum has one order, whatever the number of columns.
    """
    if joints.shape[1] == 1:  # NumPy would add a single column in another order
        return log_sum(np.repeat(joints, 2, axis=1))[:1]
    best = joints.max(axis=0)
    shift = np.where(np.isfinite(best), best, 0.0)  # −inf − (−inf) is no number
    with np.errstate(divide="ignore"):
        total: Float64 = shift + np.log(np.exp(joints - shift).sum(axis=0))
    return total


def dense_posteriors(exact: ExactJoints, block: Rows, joints: Float64) -> Float64:
    """Posteriors of all components.

    Parameters
    ----------
    exact : ExactJoints
        Of the mixture.
    block : (n, D) array
        Rows as they are stored.
    joints : (C, n) float64 array
        Their log-joints.

    Returns
    -------
    (n, C) float64 array
        Each row sums to 1. Where all joints are below what float64 holds, the nearest component has the probability 1.
    """
    probabilities = _truncated(exact, joints, len(joints)).responsibilities
    lost = np.flatnonzero(np.isneginf(joints.max(axis=0)))
    if len(lost):
        probabilities[lost] = 0.0
        probabilities[lost, exact.nearest(block[lost])] = 1.0
    return probabilities


def kept_posteriors(exact: ExactJoints, block: Rows, joints: Float64, truncation: int) -> SparseProbabilities:
    """Posteriors of the best components of each row (paper, eq:Knopt and eq:qnc).

    Parameters
    ----------
    exact : ExactJoints
        Of the mixture.
    block : (n, D) array
        Rows as they are stored.
    joints : (C, n) float64 array
        Their log-joints.
    truncation : int
        C', from 1 to C.

    Returns
    -------
    SparseProbabilities
        Ties go to the smaller number. Where joints are below what float64 holds, the nearer component is better.
    """
    kept = _truncated(exact, joints, truncation)
    components, probabilities = kept.components, kept.responsibilities
    if truncation == len(joints):  # these come in their own order
        order = np.argsort(-np.ascontiguousarray(joints.T), axis=1, kind="stable")
        components = order.astype(np.int32)
        probabilities = np.take_along_axis(probabilities, order, axis=1)
        captured, incomplete = np.ones(len(components)), np.isneginf(joints.min(axis=0))
    else:
        with np.errstate(invalid="ignore"):
            captured = np.minimum(np.exp(kept.free_energy - log_sum(joints)), 1.0)
        incomplete = (components < 0).any(axis=1)
    few = np.flatnonzero(incomplete)
    if len(few):
        distances = exact.distances(block[few])
        for i, distance in zip(few, distances.T, strict=True):
            order = np.lexsort((distance, -joints[:, i]))[:truncation]
            best = joints[order[0], i]
            mass = np.exp(joints[order, i] - best) if np.isfinite(best) else (np.arange(truncation) == 0).astype(float)
            components[i], probabilities[i] = order, mass / mass.sum()
            captured[i] = captured[i] if np.isfinite(best) else 1.0
    return SparseProbabilities(components, probabilities, captured)


def _truncated(exact: ExactJoints, joints: Float64, truncation: int) -> Truncated:
    n = joints.shape[1]
    kept = Truncated(np.empty((n, truncation), np.int32), np.empty((n, truncation)), np.empty(n), np.empty(n))
    exact.cores.run(lambda a, b: truncate_all(joints, a, b, kept), exact.cores.split(n, len(joints)))
    return kept
