"""Log-joints log p(c, x | Θ) of candidate components, one component after the other.

Paper, appendix:EfficientEvaluationMFAs: log p(c, x) = log π − ½(D log 2π + log|Σ|) − ½ tᵀΣ⁻¹t with t = x − μ. The first
terms are a number per component, the log-norm; the distance is Σ t²/σ² − ‖Wt‖². May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.arguments import PackedParameters, Regrouped
from vmfa_dask.kernels.compile import inline, inline_source, kernel
from vmfa_dask.kernels.projections import prefetch_ahead, project
from vmfa_dask.kernels.vector import CACHE_LINE_BYTES

# Parameters that stay in the first-level cache (32 KiB) while the rows of a component pass, two of them at a time. More
# crowds the rows out: at 44 KiB (1,024 features, H = 10) a joint took 1.4 times as long.
_CACHED_BYTES = 22 * 1024
# A distance below this part of Σ t²/σ² is computed again in float64: float32 sums carry an error of some 1e-7 of
# Σ t²/σ², and a distance is meant to be right to about 1e-5 of itself.
LOST = 0.03


@inline
def _features_per_stretch(n_features: Any, feature_bytes: Any) -> Any:
    """Features computed together: stretches of about equal size, multiples of 64 (a cache line of ``uint8``)."""
    n_stretches = -(-n_features * feature_bytes // _CACHED_BYTES)
    return -(-n_features // (n_stretches * CACHE_LINE_BYTES)) * CACHE_LINE_BYTES


@kernel
def project_rows(rows: Any, ids: Any, packed: Any, factors: Any, tile: Any, out_sums: Any) -> None:
    """Quadratic forms and projections of some rows under one component, in O(m·D·H).

    Parameters
    ----------
    rows : (n, D), any real dtype
    ids : (m,) int32
        Numbers of the rows.
    packed : (vectors, H + 2, lanes) float32 or float64
        Parameters of the component.
    factors, tile : tuples of lengths H and rows per register tile
    out_sums : (m, H + 1) float64, out
        Σ t²/σ² in column 0, Wt in the others.
    """
    n_rows, n_features = ids.shape[0], rows.shape[1]
    for i in range(n_rows):
        for k in range(out_sums.shape[1]):
            out_sums[i, k] = 0.0
    # Partial sums of a stretch of features are added in float64, so wide rows lose no more digits than narrow ones.
    stride = packed.shape[1]
    line_values = CACHE_LINE_BYTES // packed.itemsize
    stretch_features = _features_per_stretch(n_features, stride * packed.itemsize)
    for start in range(0, n_features, stretch_features):
        stop = min(start + stretch_features, n_features)
        # While these parameters work, the ones that follow are fetched, some lines with each tile of rows: otherwise
        # the first rows of every component wait for memory (15 % of the time at 150 rows a component).
        n_lines = stretch_features * stride // line_values * len(tile) // max(n_rows, 1) + 1
        i = 0
        while i + len(tile) <= n_rows:
            project(rows, ids, i, packed, start, stop, factors, tile, out_sums)
            line = i // len(tile) * n_lines
            prefetch_ahead(packed, stop * stride + line * line_values, n_lines)
            i += len(tile)
        # Rows that do not fill a tile, one at a time. A row's sums have one order, whatever tile it is in.
        while i < n_rows:
            project(rows, ids, i, packed, start, stop, factors, (0,), out_sums)
            i += 1


@inline
def distance(sums: Any) -> Any:
    """Squared Mahalanobis distance Σ t²/σ² − ‖Wt‖² (paper, eq:sigma_inversion).

    Parameters
    ----------
    sums : (H + 1,) float64
        Σ t²/σ² and Wt of one row, from `project_rows`.

    Returns
    -------
    float64
        Never negative, as a rounded difference can be: that would be a density above the one at the mean. NaN or ∞
        where Σ t²/σ² is: the projections may have overflowed as well, and ∞ − ∞ is no distance.
    """
    value = sums[0]
    if not value < np.inf:
        return value
    for h in range(1, sums.shape[0]):
        value -= sums[h] * sums[h]
    return max(value, 0.0)


@inline_source
def _refine(rows: Any, ids: Any, packed: Any, factors: Any, tile: Any, lost: Any, sums: Any) -> None:
    """Compute again, in float64, the sums of rows whose distance is below the part `lost` of Σ t²/σ².

    Far rows of an ill-conditioned component keep their digits; on photographs a quarter of the components is
    ill-conditioned (few rows, noise at its floor), and only the few rows near them need this.
    """
    # Rows are gathered first, so that they pass in full tiles.
    chosen = np.empty(ids.shape[0], np.int32)
    positions = np.empty(ids.shape[0], np.int32)
    n = 0
    for i in range(ids.shape[0]):
        if not distance(sums[i]) >= sums[i, 0] * lost:  # negated, so that NaN is computed again
            chosen[n], positions[n] = ids[i], i
            n += 1
    if n == 0:
        return
    precise = np.empty((n, sums.shape[1]))
    project_rows(rows, chosen[:n], packed, factors, tile, precise)
    for k in range(n):
        sums[positions[k]] = precise[k]


@inline_source
def _joints_of_component(rows: Any, ids: Any, c: Any, parameters: PackedParameters, sums: Any, out: Any) -> None:
    """Log-joints of component c with the rows `ids`, (m,) float64; `sums` (m, H + 1) float64 is work space."""
    packed, log_norms, precise_slot, lost, packed_precise, _, factors, tile = parameters
    project_rows(rows, ids, packed[c], factors, tile, sums)
    if precise_slot[c] >= 0:
        _refine(rows, ids, packed_precise[precise_slot[c]], factors, tile, lost[c], sums)
    for i in range(ids.shape[0]):
        out[i] = log_norms[c] - 0.5 * distance(sums[i])


@kernel
def log_joints(
    rows: Any, regrouped: Regrouped, first: Any, last: Any, parameters: PackedParameters, out_log_joints: Any
) -> None:
    """Log-joints of components ``first:last`` with their candidate rows.

    Parameters
    ----------
    rows : (n, D), any real dtype
    regrouped : Regrouped
        Candidate rows of each component.
    first, last : int
        Range of components.
    parameters : PackedParameters
    out_log_joints : (J,) float64, out
        Written for the given components only.
    """
    members, indptr = regrouped
    # Work space for the component with most rows, allocated once.
    most = 0
    for c in range(first, last):
        most = max(most, indptr[c + 1] - indptr[c])
    sums = np.empty((most, len(parameters.factors) + 1))
    for c in range(first, last):
        ids = members[indptr[c] : indptr[c + 1]]
        if ids.shape[0] == 0:
            continue
        joints = out_log_joints[indptr[c] : indptr[c + 1]]
        _joints_of_component(rows, ids, c, parameters, sums[: ids.shape[0]], joints)


@kernel
def all_log_joints(rows: Any, first: Any, last: Any, parameters: PackedParameters, out_log_joints: Any) -> None:
    """Log-joints of all components with rows ``first:last``, equal to those of `log_joints` bit for bit.

    Parameters
    ----------
    rows : (n, D), any real dtype
    first, last : int
        Range of rows, few enough to stay in the cache while all components pass over them.
    parameters : PackedParameters
    out_log_joints : (C, n) float64, out
        Written in columns ``first:last``.
    """
    # The same code as for regrouped rows, with every row a candidate: hence the same bits.
    ids = np.arange(first, last).astype(np.int32)
    sums = np.empty((ids.shape[0], len(parameters.factors) + 1))
    for c in range(parameters.packed.shape[0]):
        _joints_of_component(rows, ids, c, parameters, sums, out_log_joints[c, first:last])
