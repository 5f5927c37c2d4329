"""Log-joints that are right for every finite row: float32 where it is enough, float64 for the rows that need it.

Three ways, each for the few rows that the one before cannot serve: the kernels with the parameters as they are, the
kernels in float64, and residuals of scaled rows, which neither overflow nor cancel.
May import: values, runtime, em, apply, numpy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vmfa_dask.apply.trusted_kernels import TrustedKernels
from vmfa_dask.em.evaluation import evaluate_factors
from vmfa_dask.em.rows import Rows, is_exact, read_only, working_rows
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Float64, Int64, Mixture

# Keeps sums and differences of the largest numbers finite; a power of two, so that nothing is rounded.
_SHRINK = 2.0**-4


class ExactJoints:
    """Log-joints of any finite rows with all components of a mixture.

    Parameters
    ----------
    mixture : Mixture
        Without components of weight 0.
    cores : Cores
        Threads that compute.
    """

    def __init__(self, mixture: Mixture, cores: Cores) -> None:
        self.mixture, self.cores = mixture, cores
        self._plain = TrustedKernels(mixture, cores)
        self._wide: TrustedKernels | None = self._plain if mixture.means.dtype == np.float64 else None

    def of(self, block: Rows) -> Float64:
        """Log-joints log p(c, x).

        Parameters
        ----------
        block : (n, D) array
            Finite rows as they are stored.

        Returns
        -------
        (C, n) float64 array
            Nats; −inf where a density is below what float64 holds.
        """
        return self.with_best(block)[0]

    def with_best(self, block: Rows) -> tuple[Float64, Int64]:
        """Log-joints, and the most probable component of each row.

        Parameters
        ----------
        block : (n, D) array
            Finite rows as they are stored.

        Returns
        -------
        joints : (C, n) float64 array
            As `of` gives them.
        best : (n,) int64 array
            Numbers of components; ties go to the smaller number. Where all densities are below what float64 holds, the
            nearest component: so far away nothing but the distance counts.
        """
        rows = self._working(block)
        joints = self._plain.joints(rows)
        doubtful, best = self._plain.doubtful(rows, joints)
        chosen = doubtful
        if len(doubtful) and self._wide is not self._plain:
            rows = self._in_float64(block[doubtful])
            again = self._float64_kernels().joints(rows)
            joints[:, doubtful] = again
            doubtful = doubtful[self._float64_kernels().doubtful(rows, again)[0]]
        if len(doubtful):
            joints[:, doubtful] = self._by_residuals(block[doubtful])[0]
        best[chosen] = joints[:, chosen].argmax(axis=0)
        lost = chosen[np.isneginf(joints[best[chosen], chosen])]
        if len(lost):
            best[lost] = self.nearest(block[lost])
        return joints, best

    def nearest(self, block: Rows) -> Int64:
        """The component of smallest Mahalanobis distance: the best one where all densities are below float64.

        Parameters
        ----------
        block : (n, D) array
            Finite rows as they are stored.

        Returns
        -------
        (n,) int64 array
            Numbers of components.
        """
        labels: Int64 = self.distances(block).argmin(axis=0)
        return labels

    def _working(self, block: Rows) -> Rows:
        """Rows for the plain kernels, in float64 where components need digits that narrowing would round away."""
        exact = is_exact(block.dtype, self.mixture.means.dtype.name) and not self.mixture.offset.any()
        if self._plain.is_mixed and not exact:
            return self._in_float64(block)
        return working_rows(block, self.mixture.offset, self.mixture.means.dtype.name)

    def _in_float64(self, block: Rows) -> Rows:
        with np.errstate(over="ignore"):
            return read_only(np.subtract(block, self.mixture.offset, dtype=np.float64))

    def _float64_kernels(self) -> TrustedKernels:
        """Derived only when a row needs them: they are twice as large as the float32 model."""
        if self._wide is None:
            names = ("means", "loadings", "noise_variances")
            wide = {name: getattr(self.mixture, name).astype(np.float64) for name in names}
            self._wide = TrustedKernels(replace(self.mixture, **wide), self.cores)
        return self._wide

    def distances(self, block: Rows) -> Float64:
        """Logarithms of Mahalanobis distances, which order components where all densities are below float64.

        Parameters
        ----------
        block : (n, D) array
            Finite rows as they are stored.

        Returns
        -------
        (C, n) float64 array
            −inf at a mean.
        """
        return self._by_residuals(block)[1]

    def factors(self, block: Rows, row_numbers: Int64, components: Int64) -> Float64:
        """Posterior means of the factors for some pairs of a row and a component (paper, eq:z_gauss_params).

        Parameters
        ----------
        block : (n, D) array
            Finite rows as they are stored.
        row_numbers, components : (K,) int64 array
            The pairs.

        Returns
        -------
        (K, H) float64 array
            E[z | c, x].
        """
        order = np.argsort(components, kind="stable")
        counts = np.bincount(components, minlength=self.mixture.n_components)
        members, indptr = row_numbers[order].astype(np.int32), np.concatenate([[0], np.cumsum(counts)])
        factors = np.empty((len(order), self.mixture.n_factors))
        factors[order] = evaluate_factors(self._working(block), members, indptr, self._plain.precision, self.cores)
        beyond = np.flatnonzero(~np.isfinite(factors).all(axis=1))  # what float32 cannot hold
        for c in np.unique(components[beyond]):
            pairs = beyond[components[beyond] == c]
            solved, _, scales, more = self._residual(self._shrunk(block[row_numbers[pairs]]), int(c))
            with np.errstate(over="ignore"):
                factors[pairs] = (solved * scales * more / _SHRINK).T
        return factors

    def _shrunk(self, block: Rows) -> Float64:
        """Rows less the offset, scaled so that no difference overflows."""
        shrunk: Float64 = block.astype(np.float64) * _SHRINK - self.mixture.offset * _SHRINK
        return shrunk

    def _by_residuals(self, block: Rows) -> tuple[Float64, Float64]:
        """Log-joints and logarithms of Mahalanobis distances, (C, n) each.

        The distance is that of the residual, Σ (t − Λz)²/σ² + ‖z‖² with the factor means z, from rows that are scaled
        to 1: no square overflows, and no difference of large sums is left.
        """
        precision, rows = self._float64_kernels().precision, self._shrunk(block)
        distances = np.empty((self.mixture.n_components, len(block)))
        for c in range(len(distances)):
            _, squares, scales, more = self._residual(rows, c)
            with np.errstate(divide="ignore"):
                distances[c] = np.log(squares) + 2 * (np.log(scales) + np.log(more) - np.log(_SHRINK))
        with np.errstate(over="ignore"):
            joints: Float64 = precision.log_norms[:, None] - 0.5 * np.exp(distances)
        return joints, distances

    def _residual(self, shrunk: Float64, c: int) -> tuple[Float64, Float64, Float64, Float64]:
        """Factor means (H, n) and squared distances (n,) of scaled rows, and the two scales (n,) to multiply by."""
        mixture, root = self._float64_kernels().mixture, self._float64_kernels().precision.cholesky[c]
        deviations = np.sqrt(mixture.noise_variances[c])
        whitened, scales = _scaled(shrunk - mixture.means[c] * _SHRINK)
        whitened, more = _scaled(whitened / deviations)
        loadings = mixture.loadings[c] / deviations
        factors = _solved(root, np.einsum("nd,hd->hn", whitened, loadings))
        residuals = whitened - np.einsum("hn,hd->nd", factors, loadings)
        squares = np.einsum("nd,nd->n", residuals, residuals) + np.einsum("hn,hn->n", factors, factors)
        return factors, squares, scales, more


def _solved(root: Float64, projected: Float64) -> Float64:
    """(RRᵀ)⁻¹b for the columns b (H, n): by substitution, so that no column depends on how many there are."""
    solution = projected.copy()
    for h in range(len(root)):
        for j in range(h):
            solution[h] -= root[h, j] * solution[j]
        solution[h] /= root[h, h]
    for h in reversed(range(len(root))):
        for j in range(h + 1, len(root)):
            solution[h] -= root[j, h] * solution[j]
        solution[h] /= root[h, h]
    return solution


def _scaled(rows: Float64) -> tuple[Float64, Float64]:
    """Rows whose largest value is 1, and what they were divided by, (n,)."""
    scales = np.abs(rows).max(axis=1)
    scales[scales == 0] = 1.0
    return rows / scales[:, None], scales
