"""The components of a fitted mixture one by one: which rows are typical, which are alike, and models with fewer.

May import: values, apply, numpy.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from vmfa_dask.apply.divergences import average_linkage, symmetric_divergences
from vmfa_dask.apply.model_rows import as_source
from vmfa_dask.apply.packed_model import PackedModel
from vmfa_dask.values import Float64, Int64, Mixture

# Beyond this, pairs of components take minutes and gigabytes.
_MOST_COMPONENTS = 5000


class Components(PackedModel):
    """What a `MixtureModel` tells of its components."""

    def typical_rows(self, x: Any, n: int = 10, array: str | None = None, sample_dim: str | None = None) -> Int64:
        """The rows that each component explains best.

        Parameters
        ----------
        x, array, sample_dim
            Rows, as in `score_samples`.
        n : int
            Rows per component, at least 1.

        Returns
        -------
        (C, n) int64 array
            Numbers of the rows of largest log p(c, x), best first, of equals the smaller number; −1 where there are
            fewer rows. A row may be typical of several components.

        Raises
        ------
        TypeError, ValueError, FileNotFoundError
            As `score_samples`, and when `n` is below 1.

        Examples
        --------
        >>> import numpy as np
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([0.5, 0.5], [[0.0, 0.0], [9.0, 9.0]], np.zeros((2, 0, 2)), np.ones((2, 2)))
        >>> model.typical_rows([[0.5, -0.5], [8.0, 9.5], [9.0, 9.1]], n=2)
        array([[0, 1],
               [2, 1]])
        """
        if operator.index(n) < 1:
            raise ValueError(f"n={n}: expected at least 1")
        best = np.full((n, self.n_components), -np.inf)
        numbers = np.full((n, self.n_components), -1, np.int64)
        evaluator, alive = self._evaluator, np.flatnonzero(self.weights > 0)
        for part, block in evaluator.blocks(as_source(self.mixture, x, array, sample_dim)):
            joints = evaluator.joints(block)
            rows = np.arange(part.start, part.start + len(block))
            for k, c in enumerate(alive):
                both = np.concatenate([best[:, c], joints[k]])
                order = np.argsort(-both, kind="stable")[:n]
                best[:, c], numbers[:, c] = both[order], np.concatenate([numbers[:, c], rows])[order]
        return np.ascontiguousarray(numbers.T)

    def hierarchy(self) -> Float64:
        """Tree of the components, by symmetric KL divergence and average linkage.

        Returns
        -------
        (C − 1, 4) float64 array
            As `scipy.cluster.hierarchy.dendrogram` and `fcluster` take it: the two clusters that become one, their
            divergence in nats, and the number of components in the new one, cluster C + k in row k.

        Raises
        ------
        ValueError
            When there is one component, or more than 5000.

        Examples
        --------
        >>> import numpy as np
        >>> from vmfa_dask import MixtureModel
        >>> means = [[0.0, 0.0], [9.0, 9.0], [0.0, 2.0]]
        >>> MixtureModel(np.full(3, 1 / 3), means, np.zeros((3, 0, 2)), np.ones((3, 2))).hierarchy()
        array([[  0.,   2.,   4.,   2.],
               [  1.,   3., 146.,   3.]])
        """
        if not 2 <= self.n_components <= _MOST_COMPONENTS:
            raise ValueError(f"{self.n_components} components: a tree of all pairs expects 2 to {_MOST_COMPONENTS}")
        return average_linkage(symmetric_divergences(self.mixture))

    def prune(self, min_weight: float) -> Self:
        """The model without its small components.

        Parameters
        ----------
        min_weight : float
            Components of a smaller weight are left out; the weights of the others are scaled to a sum of 1.

        Returns
        -------
        MixtureModel
            A new model. A fit with ``start=model`` trains it further.

        Raises
        ------
        ValueError
            When no component would remain.
        """
        if not (self.weights >= min_weight).any():
            largest = f"the largest weight is {self.weights.max():.3g}"
            raise ValueError(f"min_weight={min_weight}: no component would remain; {largest}")
        weights = np.where(self.weights >= min_weight, self.weights, 0.0)
        return self.of(replace(self.mixture, weights=weights / weights.sum()), self.type)

    def merge_components(self, a: int, b: int) -> Self:
        """The model with two components replaced by one of the same mean and variances.

        The covariance of the two together has rank 2H + 1 beside its diagonal. The new component keeps the H strongest
        directions in units of its noise, and the diagonal of the others, so that each feature keeps its variance.

        Parameters
        ----------
        a, b : int
            Numbers of two components.

        Returns
        -------
        MixtureModel
            A new model with C − 1 components: the merged one has the number of the first of the two.

        Raises
        ------
        IndexError, ValueError
            When there is no such component, or both are the same.
        """
        for c in (a, b):
            if not 0 <= operator.index(c) < self.n_components:
                raise IndexError(f"component {c}: expected 0 to {self.n_components - 1}")
        if a == b:
            raise ValueError(f"components {a} and {b}: expected two different ones")
        first, second = sorted((a, b))
        m = self.mixture
        parts = {name: getattr(m, name).copy() for name in ("weights", "means", "loadings", "noise_variances")}
        parts["weights"][first] += parts["weights"][second]
        parts["means"][first], parts["loadings"][first], variances = _merged(m, first, second)
        isotropic = self.type.covariance_type == "isotropic"
        parts["noise_variances"][first] = variances.mean() if isotropic else variances
        kept = np.arange(self.n_components) != second
        model_type = replace(self.type, noise="component")  # that of the new one is its own
        return self.of(replace(m, **{name: array[kept] for name, array in parts.items()}), model_type)


def _merged(m: Mixture, a: int, b: int) -> tuple[Float64, Float64, Float64]:
    """Mean (D,), loadings (H, D) and noise variances (D,) that match the moments of two components."""
    shares = m.weights[[a, b]] / m.weights[[a, b]].sum()
    means, loadings = m.means[[a, b]].astype(np.float64), m.loadings[[a, b]].astype(np.float64)
    # The deviations of both means from their average lie on one line.
    between = np.sqrt(shares.prod()) * (means[0] - means[1])
    directions = np.vstack([*(np.sqrt(shares)[:, None, None] * loadings), between])
    noise = shares @ m.noise_variances[[a, b]].astype(np.float64)
    _, strengths, axes = np.linalg.svd(directions / np.sqrt(noise), full_matrices=False)
    factors = strengths[:, None] * axes * np.sqrt(noise)
    rest = factors[m.n_factors :]
    return shares @ means, factors[: m.n_factors], noise + (rest**2).sum(axis=0)
