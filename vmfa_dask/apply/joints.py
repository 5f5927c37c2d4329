"""Log-joints that are right for every finite row: float32 where it is enough, float64 for the rows that need it.

Three ways, each for the few rows that the one before cannot serve: the kernels with the parameters as they are, the
kernels in float64, and residuals of scaled rows, which neither overflow nor cancel.
May import: values, runtime, kernels, em, numpy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.em.evaluation import evaluate_all_joints
from vmfa_dask.em.packed import PackedMixture, pack_mixture
from vmfa_dask.em.rows import Rows, is_exact, read_only, working_rows
from vmfa_dask.kernels.doubts import mark_doubts, whitened_squares
from vmfa_dask.kernels.log_joints import LOST
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Float64, Int64, Mixture

# A distance carries at most this part of Σ t²/σ² as an error: float32 sums were seen to be off by 3.4e-7.
_ROUNDING = {"float32": 3.5e-7, "float64": 1e-15}
# An error counts if it is larger than this part of the distance, and than a few nats in a hundred thousand features.
_PART_OF_DISTANCE, _NATS_PER_FEATURE = 1e-4, 1e-5
# The best component is computed again where others may be better and joints are wrong by more than this, in nats.
_OPEN_ORDER = 0.02
# Rows that stay in the cache while all components pass over them.
_MARKED_TOGETHER = 256
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
        self._plain = _Kernels(mixture, cores)
        self._wide: _Kernels | None = self._plain if mixture.means.dtype == np.float64 else None

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
        rows = self._working(block)
        joints = self._plain.joints(rows)
        doubtful = self._plain.doubtful(rows, joints)
        if len(doubtful) and self._wide is not self._plain:
            rows = self._in_float64(block[doubtful])
            again = self._float64_kernels().joints(rows)
            joints[:, doubtful] = again
            doubtful = doubtful[self._float64_kernels().doubtful(rows, again)]
        if len(doubtful):
            joints[:, doubtful] = self._by_residuals(block[doubtful])[0]
        return joints

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
        labels: Int64 = self._by_residuals(block)[1].argmin(axis=0)
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

    def _float64_kernels(self) -> _Kernels:
        """Derived only when a row needs them: they are twice as large as the float32 model."""
        if self._wide is None:
            names = ("means", "loadings", "noise_variances")
            wide = {name: getattr(self.mixture, name).astype(np.float64) for name in names}
            self._wide = _Kernels(replace(self.mixture, **wide), self.cores)
        return self._wide

    def _by_residuals(self, block: Rows) -> tuple[Float64, Float64]:
        """Log-joints and logarithms of Mahalanobis distances, (C, n) each.

        The distance is that of the residual, Σ (t − Λz)²/σ² + ‖z‖² with the factor means z, from rows that are scaled
        to 1: no square overflows, and no difference of large sums is left.
        """
        mixture, precision = self._float64_kernels().mixture, self._float64_kernels().precision
        rows = block.astype(np.float64) * _SHRINK - mixture.offset * _SHRINK
        distances = np.empty((mixture.n_components, len(block)))
        for c in range(mixture.n_components):
            deviations = np.sqrt(mixture.noise_variances[c])
            whitened, scales = _scaled(rows - mixture.means[c] * _SHRINK)
            whitened, more = _scaled(whitened / deviations)
            loadings, root = mixture.loadings[c] / deviations, precision.cholesky[c]
            projected = np.linalg.solve(root, np.einsum("nd,hd->hn", whitened, loadings))
            factors = np.linalg.solve(root.T, projected)
            residuals = whitened - np.einsum("hn,hd->nd", factors, loadings)
            squares = np.einsum("nd,nd->n", residuals, residuals) + np.einsum("hn,hn->n", factors, factors)
            with np.errstate(divide="ignore"):
                distances[c] = np.log(squares) + 2 * (np.log(scales) + np.log(more) - np.log(_SHRINK))
        with np.errstate(over="ignore"):
            joints: Float64 = precision.log_norms[:, None] - 0.5 * np.exp(distances)
        return joints, distances


def _scaled(rows: Float64) -> tuple[Float64, Float64]:
    """Rows whose largest value is 1, and what they were divided by, (n,)."""
    scales = np.abs(rows).max(axis=1)
    scales[scales == 0] = 1.0
    return rows / scales[:, None], scales


class _Kernels:
    """A mixture in one precision: the results of the kernels, and how far they can be trusted."""

    def __init__(self, mixture: Mixture, cores: Cores) -> None:
        self.mixture, self.cores = mixture, cores
        self.precision: PackedMixture = pack_mixture(mixture, cores)
        p, rounding = self.precision, _ROUNDING[mixture.means.dtype.name]
        self._narrow = mixture.means.dtype == np.float32
        # Of components that are packed in float64, float32 gives the distances that have kept their digits, if any.
        packed = np.where(p.lost < np.inf, rounding / LOST, 0.0) + _ROUNDING["float64"] * (1 + p.conditions)
        self._worst = np.where(p.precise_slot >= 0, packed, rounding * (1 + p.conditions))

    @property
    def is_mixed(self) -> bool:
        """Whether some components are evaluated in float64 and others in float32."""
        return len(self.precision.packed_precise) > 0

    def joints(self, rows: Rows) -> Float64:
        """Log-joints (C, n)."""
        return evaluate_all_joints(rows, self.precision, self.cores)

    def doubtful(self, rows: Rows, joints: Float64) -> Int64:
        """Rows (m,) whose density or best component may be wrong: overflow, lost digits, or an open order."""
        marks = np.empty(len(rows), np.uint8)
        few = min(_NATS_PER_FEATURE * rows.shape[1], _OPEN_ORDER)
        smallest = np.where(self._worst > _PART_OF_DISTANCE, few, _OPEN_ORDER)
        norms = self.precision.log_norms

        def mark(start: int, stop: int) -> None:
            for low in range(start, stop, _MARKED_TOGETHER):
                mark_doubts(joints, norms, self._worst, smallest, low, min(low + _MARKED_TOGETHER, stop), marks)

        self.cores.run(mark, self.cores.split(len(rows)))
        chosen = np.flatnonzero(marks == 1)
        if len(chosen):
            marks[chosen] = self._is_uncertain(rows, joints[:, chosen], chosen, smallest)
        return np.flatnonzero(marks)

    def _is_uncertain(self, rows: Rows, joints: Float64, chosen: Int64, smallest: Float64) -> NDArray[np.bool_]:
        """Whether the best components of the `chosen` rows may be others, or have lost digits, from Σ t²/σ²."""
        distances = self.precision.log_norms[:, None] - joints
        bounds, best = self._worst[:, None] * distances, joints.argmax(axis=0)
        c, i = np.nonzero((bounds > smallest[:, None]) & (joints + bounds >= _at(joints - bounds, best)))
        errors = np.zeros(joints.shape)
        errors[c, i] = self._errors(rows, chosen[i], c, joints[c, i])
        near = joints + errors >= _at(joints - errors, best)
        lost = near & (errors > _NATS_PER_FEATURE * rows.shape[1]) & (errors > _PART_OF_DISTANCE * distances)
        open_order = (near & (errors > _OPEN_ORDER)).any(axis=0) & (near.sum(axis=0) > 1)
        uncertain: NDArray[np.bool_] = lost.any(axis=0) | (open_order & self._narrow)
        return uncertain

    def _errors(self, rows: Rows, i: Int64, c: Int64, joints: Float64) -> Float64:
        """Largest error in nats of the joints of some pairs of a row and a component, (P,)."""
        p, mixture, squares = self.precision, self.mixture, np.empty(len(i))
        self.cores.run(
            lambda a, b: whitened_squares(rows, i, c, mixture.means, mixture.noise_variances, a, b, squares),
            self.cores.split(len(i)),
        )
        distances = 2 * (p.log_norms[c] - joints)
        kept = np.where(p.lost[c] < np.inf, distances >= LOST * squares, False)
        in_float64 = (p.precise_slot[c] >= 0) & ~kept
        narrow = _ROUNDING[mixture.means.dtype.name]
        errors: Float64 = 0.5 * squares * np.where(in_float64, _ROUNDING["float64"], narrow)
        return errors


def _at(table: Float64, component: Int64) -> Float64:
    """The entry of each row's component, (n,)."""
    chosen: Float64 = np.take_along_axis(table, component[None], axis=0)[0]
    return chosen
