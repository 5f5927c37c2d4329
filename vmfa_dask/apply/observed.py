"""A mixture given only some features of each row: densities of what is observed, expectations of what is missing.

May import: values, runtime, kernels, apply, numpy.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask.apply.missing import Mask
from vmfa_dask.apply.posteriors import log_sum
from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels.arguments import ObservedRows, Parameters
from vmfa_dask.kernels.observed import expected_rows, observed_log_joints
from vmfa_dask.runtime.threads import Cores, available_cores
from vmfa_dask.values import Float64, Int64, Mixture

_BLOCK_BYTES = 64 * 2**20


class ObservedParts:
    """Exact inference from the observed features of rows, with all components.

    Parameters
    ----------
    mixture : Mixture
        The model.
    """

    def __init__(self, mixture: Mixture) -> None:
        self.mixture, self._cores = mixture, Cores(available_cores())
        self._parameters = Parameters(mixture.means, mixture.loadings, mixture.noise_variances)
        with np.errstate(divide="ignore"):
            self._log_weights = np.log(mixture.weights)

    @property
    def block_rows(self) -> int:
        """Rows whose joints and factor means take no more than 64 MiB."""
        m = self.mixture
        return int(np.clip(_BLOCK_BYTES // (8 * (m.n_components * (m.n_factors + 2) + 4 * m.n_features)), 16, 4096))

    def scores(self, block: Rows, missing: Mask) -> Float64:
        """Log-densities of the observed values.

        Parameters
        ----------
        block : (n, D) array
            Rows as they are stored.
        missing : (n, D) bool array
            True where a value is missing; all others are finite.

        Returns
        -------
        (n,) float64 array
            log p(x_o) in nats; 0 where nothing is observed, −inf where it is below what float64 holds.
        """
        order, joints, _ = self._joints(block, missing)
        scores = np.empty(len(block))
        scores[order] = log_sum(joints)
        return scores

    def expectations(self, block: Rows, missing: Mask) -> tuple[Float64, Float64]:
        """Log-densities of the observed values, and the expectation of every feature given them.

        Parameters
        ----------
        block, missing
            As in `scores`.

        Returns
        -------
        scores : (n,) float64 array
            As from `scores`.
        expected : (n, D) float64 array
            Where a value is missing E[x_m | x_o]; no more than a reconstruction elsewhere. Meaningless where the score
            is −inf.
        """
        order, joints, factors = self._joints(block, missing)
        scores, expected = np.empty(len(block)), np.empty(block.shape)
        sums, rows = log_sum(joints), np.empty(block.shape)
        responsibilities = np.exp(joints - np.where(np.isfinite(sums), sums, 0.0))
        self._cores.run(
            lambda a, b: expected_rows(responsibilities, factors, self._parameters, a, b, rows),
            self._cores.split(len(block)),
        )
        scores[order], expected[order] = sums, rows + self.mixture.offset
        return scores, expected

    def _joints(self, block: Rows, missing: Mask) -> tuple[Int64, Float64, Float64]:
        """Order of rows by pattern (n,), and in this order log-joints (C, n) and factor means (C, n, H)."""
        m = self.mixture
        order, rows = self._by_pattern(block, missing)
        joints, factors = np.empty((m.n_components, len(block))), np.empty((m.n_components, len(block), m.n_factors))
        self._cores.run(
            lambda a, b: observed_log_joints(rows, self._parameters, self._log_weights, a, b, joints, factors),
            self._cores.split(m.n_components),
        )
        return order, joints, factors

    def _by_pattern(self, block: Rows, missing: Mask) -> tuple[Int64, ObservedRows]:
        """Rows with equal patterns together: what depends on the pattern alone is computed once for all of them."""
        bits = np.packbits(missing, axis=1)
        _, firsts, pattern_of_row = np.unique(
            bits.view(np.dtype((np.void, bits.shape[1])))[:, 0], return_index=True, return_inverse=True
        )
        order = np.argsort(pattern_of_row, kind="stable")
        columns = np.flatnonzero(~missing.all(axis=0))
        values = np.where(missing, 0.0, block.astype(np.float64) - self.mixture.offset)
        indptr = np.searchsorted(pattern_of_row[order], np.arange(len(firsts) + 1))
        observed = np.ascontiguousarray(~missing[np.ix_(firsts, columns)], np.float64)
        return order, ObservedRows(values[np.ix_(order, columns)], observed, indptr, columns)
