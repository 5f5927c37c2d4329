"""Images without noise from a mixture of their patches (paper, appendix:denoising_with_gmms).

May import: values, runtime, em, run, apply, numpy.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask.apply.patches import Merge, PatchMerger, PatchRows
from vmfa_dask.em.guided import GuidedSearch, SearchOptions
from vmfa_dask.em.packed import ModelVersion, pack_mixture
from vmfa_dask.em.rows import working_rows
from vmfa_dask.em.signals import estimate_signals, signal_filters
from vmfa_dask.run.row_source import n_features_of
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.clock import Stopwatch
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Centers, Float64, FloatArray, Int32, Mixture, NeighborGraph, TruncatedPosterior

# Estimates of patches that are held at once, beside those of the lines of pixels that are not complete.
_BLOCK_BYTES = 32 * 2**20


def merged_estimates(
    mixture: Mixture, rows: PatchRows, components: Int32, merge: Merge, cores: Cores, noise: Float64 | None = None
) -> FloatArray:
    """Estimate all patches and merge them to images, some lines of patches at a time.

    Parameters
    ----------
    mixture : Mixture
        The model of the patches.
    rows : PatchRows
        The patches.
    components : (N, C') int32 array
        Kept components of all patches.
    merge : {"median", "mean"}
        How the estimates of a pixel become one.
    cores : Cores
        Threads that compute.
    noise : (C, D) float64 array, optional
        Variances of the noise to be removed; by default the noise variances of the model.

    Returns
    -------
    (M, H, W, channels) float32 array
        The images.
    """
    estimator = _Estimator(mixture, components.shape[1], cores, noise)
    lines = max(1, _BLOCK_BYTES // (4 * n_features_of(rows) * rows.line_rows))
    patch = (rows.feature_shape[0], rows.feature_shape[1])
    images = np.empty(rows.image_shape, np.float32)
    for k, image in enumerate(images):
        merger = PatchMerger(image, patch, merge, min(lines, rows.lines), cores)
        for first in range(0, rows.lines, lines):
            start = (k * rows.lines + first) * rows.line_rows
            stop = (k * rows.lines + min(first + lines, rows.lines)) * rows.line_rows
            estimates = estimator.of(rows.read(start, stop), start, components[start:stop])
            if rows.centred:
                estimates += rows.levels(start, stop)
            merger.add(estimates.reshape(-1, rows.line_rows, estimates.shape[1]))
    return images


class _Estimator:
    """Expected signals of rows over their kept components, whose responsibilities are computed again."""

    def __init__(self, mixture: Mixture, truncation: int, cores: Cores, noise: Float64 | None) -> None:
        self._mixture, self._cores, self._buffers = mixture, cores, BufferPool()
        self._signals = signal_filters(mixture, noise)
        c = mixture.n_components
        options = SearchOptions(False, truncation, (1,) * truncation, truncation, 0, 1, True, 0, 4096, 0, False)
        graph = NeighborGraph(np.arange(c, dtype=np.int32)[:, None])
        model = ModelVersion(Centers.of(mixture), pack_mixture(mixture, cores, self._buffers), graph)
        self._search = GuidedSearch(model, options, cores, self._buffers, Stopwatch())

    def of(self, block: FloatArray, first_row: int, components: Int32) -> FloatArray:
        """Estimates of a block of rows, (n, D) float32."""
        rows = working_rows(block, self._mixture.offset, self._mixture.means.dtype.name)
        with self._cores.exclusive():
            kept = self._search.evaluate(rows, first_row, TruncatedPosterior(components))
            estimates = np.empty(rows.shape, self._mixture.means.dtype)
            estimate_signals(rows, kept.components, kept.responsibilities, self._signals, self._cores, estimates)
        if self._mixture.offset.any():
            estimates += self._mixture.offset.astype(estimates.dtype)
        return estimates
