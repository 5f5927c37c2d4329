"""The results of the kernels in one precision, and the rows for which they are not to be trusted.

May import: values, runtime, kernels, em, numpy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.em.evaluation import evaluate_all_joints
from vmfa_dask.em.packed import PackedMixture, pack_mixture
from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels.doubts import near_pairs, whitened_squares
from vmfa_dask.kernels.log_joints import LOST
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Float64, Int64, Mixture

# A distance carries at most this part of Σ t²/σ² as an error: float32 sums were seen to be off by 3.4e-7.
_ROUNDING = {"float32": 3.5e-7, "float64": 1e-15}
# An error counts if it is larger than this part of the distance, and than a few nats in a hundred thousand features.
_PART_OF_DISTANCE, _NATS_PER_FEATURE = 1e-4, 1e-5
# The best component is computed again where others may be better and joints are wrong by more than this, in nats.
_OPEN_ORDER = 0.02


class TrustedKernels:
    """A mixture in one precision: the results of the kernels, and how far they can be trusted.

    Parameters
    ----------
    mixture : Mixture
        Without components of weight 0; its dtype is the precision.
    cores : Cores
        Threads that compute.

    Attributes
    ----------
    precision : PackedMixture
        The packed form of the mixture.
    """

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
        """Log-joints of all components.

        Parameters
        ----------
        rows : (n, D) array
            Rows as `em.rows.working_rows` returns them.

        Returns
        -------
        (C, n) float64 array
            Nats; NaN or −inf where a square overflows.
        """
        return evaluate_all_joints(rows, self.precision, self.cores)

    def doubtful(self, rows: Rows, joints: Float64) -> tuple[Int64, Int64]:
        """Rows whose density or best component may be wrong: overflow, lost digits, or an open order.

        First from bounds that need the joints alone, then for the few pairs that matter from Σ t²/σ².

        Parameters
        ----------
        rows : (n, D) array
            Rows as `em.rows.working_rows` returns them.
        joints : (C, n) float64 array
            Their log-joints.

        Returns
        -------
        doubtful : (m,) int64 array
            Numbers of rows.
        best : (n,) int64 array
            Component of the largest joint of each row; ties go to the smaller number.
        """
        floors, best = np.empty(len(rows)), np.empty(len(rows), np.int64)
        few = min(_NATS_PER_FEATURE * rows.shape[1], _OPEN_ORDER)
        smallest = np.where(self._worst > _PART_OF_DISTANCE, few, _OPEN_ORDER)
        norms = self.precision.log_norms
        parts = self.cores.run(
            lambda start, stop: near_pairs(joints, norms, self._worst, start, stop, floors, best),
            self.cores.split(len(rows)),
        )
        c, i = (np.concatenate(pairs) for pairs in zip(*parts, strict=True))
        bounds = self._worst[c] * (norms[c] - joints[c, i])
        counts = bounds > smallest[c]
        uncertain = np.isnan(floors)
        uncertain[i[counts & (joints[c, i] + bounds >= floors[i])]] = True
        chosen = uncertain[i]
        if chosen.any():
            uncertain &= np.isnan(floors) | self._is_uncertain(rows, joints, c[chosen], i[chosen], counts[chosen], best)
        return np.flatnonzero(uncertain), best

    def _is_uncertain(
        self, rows: Rows, joints: Float64, c: Int64, i: Int64, counts: NDArray[np.bool_], best: Int64
    ) -> NDArray[np.bool_]:
        """Whether the best component of a row may be another, or has lost digits, (n,), from Σ t²/σ² of near pairs."""
        values, order = joints[c, i], np.flatnonzero(counts)
        order = order[np.argsort(c[order], kind="stable")]
        errors = np.zeros(len(c))
        errors[order] = self._errors(rows, i[order], c[order], values[order])
        floors, is_best = np.full(len(rows), np.inf), c == best[i]
        floors[i[is_best]] = (values - errors)[is_best]
        near, distances = values + errors >= floors[i], self.precision.log_norms[c] - values
        lost = near & (errors > _NATS_PER_FEATURE * rows.shape[1]) & (errors > _PART_OF_DISTANCE * distances)
        open_order = near & (errors > _OPEN_ORDER) & (np.bincount(i[near], minlength=len(rows))[i] > 1)
        uncertain = np.zeros(len(rows), np.bool_)
        uncertain[i[lost | (open_order & self._narrow)]] = True
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
