"""Log-joints log p(c, x | Θ) of candidate components, grouped by component.

Paper, appendix on avoiding the inversion of large covariance matrices. May import: numpy, numba, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.compile import inline, kernel, reduction
from vmfa_dask.kernels.projections import prefetch_ahead, project
from vmfa_dask.kernels.vector import CACHE_LINE_BYTES

# Parameters that stay in the first-level cache (32 KiB) while the rows of a component pass, two of them at a time. More
# crowds the rows out: at 44 KiB (1,024 features, H = 10) a joint took 1.4 times as long.
_TILE_BYTES = 22 * 1024
# A distance below this part of Σ t²/σ² is computed again in float64: float32 sums carry an error of some 1e-7 of
# Σ t²/σ², and a distance shall be right to about 1e-5 of itself.
LOST = 0.03


@inline
def _features_per_tile(n_features: Any, feature_bytes: Any) -> Any:
    """Features that are computed together: all in tiles of about equal size, multiples of 64 (a line of bytes)."""
    n_tiles = -(-n_features * feature_bytes // _TILE_BYTES)
    return -(-n_features // (n_tiles * CACHE_LINE_BYTES)) * CACHE_LINE_BYTES


@kernel
def project_rows(rows: Any, ids: Any, packed: Any, factors: Any, tile: Any, out_sums: Any) -> None:
    """Quadratic forms and projections of the rows `ids` under one component.

    Parameters as in `projections.project`; out_sums (m, H + 1) float64 is overwritten. Complexity O(m·D·H).
    """
    n_rows, n_features = ids.shape[0], rows.shape[1]
    for i in range(n_rows):
        for k in range(out_sums.shape[1]):
            out_sums[i, k] = 0.0
    stride = packed.shape[1]
    line_values = CACHE_LINE_BYTES // packed.itemsize
    tile_features = _features_per_tile(n_features, stride * packed.itemsize)
    for start in range(0, n_features, tile_features):
        stop = min(start + tile_features, n_features)
        # While these parameters work, the ones that follow are fetched, some lines with each tile of rows: otherwise
        # the first rows of every component wait for memory (15 % of the time at 150 rows a component).
        n_lines = tile_features * stride // line_values * len(tile) // max(n_rows, 1) + 1
        i = 0
        while i + len(tile) <= n_rows:
            project(rows, ids, i, packed, start, stop, factors, tile, out_sums)
            line = i // len(tile) * n_lines
            prefetch_ahead(packed, stop * stride + line * line_values, n_lines)
            i += len(tile)
        while i < n_rows:
            project(rows, ids, i, packed, start, stop, factors, (0,), out_sums)
            i += 1


@inline
def distance(sums: Any) -> Any:
    """Mahalanobis term Σ t²/σ² − ‖Wt‖² from the sums of one row; rounding must not make a density of it.

    Infinite where Σ t²/σ² has overflowed: the projections may have as well, and inf − inf is no distance.
    """
    value = sums[0]
    if not value < np.inf:
        return value
    for h in range(1, sums.shape[0]):
        value -= sums[h] * sums[h]
    return max(value, 0.0)


@inline
def _refine(rows: Any, ids: Any, packed: Any, factors: Any, tile: Any, lost: Any, sums: Any) -> None:
    """Compute again, in float64, the rows of a component whose distance is below the part `lost` of Σ t²/σ².

    Far rows of an ill-conditioned component keep their digits; on photographs a quarter of the components is
    ill-conditioned (few rows, noise at its floor), and only the few rows near them need this.
    """
    chosen = np.empty(ids.shape[0], np.int32)
    where = np.empty(ids.shape[0], np.int32)
    n = 0
    for i in range(ids.shape[0]):
        if not distance(sums[i]) >= sums[i, 0] * lost:
            chosen[n], where[n] = ids[i], i
            n += 1
    if n == 0:
        return
    precise = np.empty((n, sums.shape[1]))
    project_rows(rows, chosen[:n], packed, factors, tile, precise)
    for k in range(n):
        sums[where[k]] = precise[k]


@kernel
def log_joints(
    rows: Any,
    members: Any,
    indptr: Any,
    first: Any,
    last: Any,
    packed: Any,
    log_norms: Any,
    precise_slot: Any,
    lost: Any,
    packed_precise: Any,
    factors: Any,
    tile: Any,
    out_log_joints: Any,
) -> None:
    """Log-joints of components ``first:last`` with their candidate rows.

    Parameters
    ----------
    rows : (n, D) any real dtype
    members : (J,) int32, row numbers grouped by component
    indptr : (C + 1,) int64, component c owns ``members[indptr[c]:indptr[c + 1]]``
    packed : (C, blocks, H + 2, lanes) float32 or float64, see `projections`
    log_norms : (C,) float64, log π − ½(D log 2π + log|Σ|)
    precise_slot : (C,) int32, index into `packed_precise` for components that float32 does not serve, else −1
    lost : (C,) float64, the part of Σ t²/σ² below which a distance is computed again there; inf for every row
    packed_precise : (P, blocks64, H + 2, lanes64) float64
    out_log_joints : (J,) float64, written for the given components only
    """
    most = 0
    for c in range(first, last):
        most = max(most, indptr[c + 1] - indptr[c])
    sums = np.empty((most, len(factors) + 1))
    for c in range(first, last):
        ids = members[indptr[c] : indptr[c + 1]]
        if ids.shape[0] == 0:
            continue
        project_rows(rows, ids, packed[c], factors, tile, sums[: ids.shape[0]])
        if precise_slot[c] >= 0:
            _refine(rows, ids, packed_precise[precise_slot[c]], factors, tile, lost[c], sums)
        for i in range(ids.shape[0]):
            out_log_joints[indptr[c] + i] = log_norms[c] - 0.5 * distance(sums[i])


@kernel
def all_log_joints(
    rows: Any,
    first: Any,
    last: Any,
    packed: Any,
    log_norms: Any,
    precise_slot: Any,
    lost: Any,
    packed_precise: Any,
    factors: Any,
    tile: Any,
    out_log_joints: Any,
) -> None:
    """Log-joints of all components with rows ``first:last``, into out_log_joints (C, n) float64; see `log_joints`."""
    ids = np.arange(first, last).astype(np.int32)
    sums = np.empty((ids.shape[0], len(factors) + 1))
    for c in range(packed.shape[0]):
        project_rows(rows, ids, packed[c], factors, tile, sums)
        if precise_slot[c] >= 0:
            _refine(rows, ids, packed_precise[precise_slot[c]], factors, tile, lost[c], sums)
        for i in range(ids.shape[0]):
            out_log_joints[c, first + i] = log_norms[c] - 0.5 * distance(sums[i])


@kernel
def mark_doubts(
    log_joints: Any, log_norms: Any, worst: Any, smallest: Any, first: Any, last: Any, out_marks: Any
) -> None:
    """Which rows ``first:last`` are worth a closer look, into out_marks (n,) uint8: 0 none, 1 doubtful, 2 not finite.

    A joint of distance d can be wrong by ``worst[c] d / 2``. A row is doubtful where a component may be as good as the
    best one, and its joint be wrong by more than ``smallest[c]``.

    Parameters
    ----------
    log_joints : (C, n) float64
    log_norms, worst, smallest : (C,) float64, in nats, as parts of the distance, in nats
    """
    n = last - first
    floor, doubts, finite = np.full(n, -np.inf), np.zeros(n), np.zeros(n)
    for c in range(log_norms.shape[0]):
        part, norm = worst[c], log_norms[c]
        for i in range(n):
            value = log_joints[c, first + i]
            least = value - part * (norm - value)
            floor[i] = least if least > floor[i] else floor[i]
            finite[i] += value * 0.0  # NaN from the first value on that is not finite
    for c in range(log_norms.shape[0]):
        part, norm, little = worst[c], log_norms[c], smallest[c]
        for i in range(n):
            value = log_joints[c, first + i]
            error = part * (norm - value)
            doubts[i] = 1.0 if (error > little) & (value + error >= floor[i]) else doubts[i]
    for i in range(n):
        out_marks[first + i] = 2 if finite[i] != 0.0 else int(doubts[i])


@reduction
def whitened_squares(
    rows: Any, ids: Any, owners: Any, means: Any, noise_variances: Any, first: Any, last: Any, out_squares: Any
) -> None:
    """Σ t²/σ² in float64 of the pairs ``first:last`` of a row and a component, into out_squares (P,) float64.

    rows (n, D) any real dtype; ids, owners (P,) row and component of each pair; means, noise_variances (C, D). Against
    the distance it says how many digits of the distance cancelled.
    """
    known, mean, inverse = -1, np.empty(rows.shape[1]), np.empty(rows.shape[1])
    for k in range(first, last):
        i, c = ids[k], owners[k]
        if c != known:  # pairs of one component follow each other
            known = c
            for d in range(rows.shape[1]):
                mean[d], inverse[d] = means[c, d], 1.0 / np.float64(noise_variances[c, d])
        total = 0.0
        for d in range(rows.shape[1]):
            t = np.float64(rows[i, d]) - mean[d]
            total += t * t * inverse[d]
        out_squares[k] = total
