"""How strong the noise of an image is at each brightness, from the image alone. May import: numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from vmfa_dask.values import Float64

# Blind to constants, slopes and edges along the axes; on white noise of variance 1 its variance is 1 (Immerkær, 1996).
_FILTER = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]]) / 6
_MEDIAN_OF_ABSOLUTE_NORMAL = 0.6745
_BINS = 8
# Lines that are filtered at once.
_LINES = 256


@dataclass(frozen=True)
class NoiseLevels:
    """Noise of an image, by brightness.

    Parameters
    ----------
    deviations : (B,) float64 array
        Standard deviation of the noise in parts of the image of equal size, from the darkest to the brightest.
    """

    deviations: Float64

    @property
    def typical(self) -> float:
        """Standard deviation of white noise: texture adds to that of some parts, so one of the lowest counts."""
        return float(np.quantile(self.deviations, 0.25))

    @property
    def variation(self) -> float:
        """Second largest standard deviation over the second smallest one: near 1 where noise is the same everywhere.

        The extremes may be of saturated parts, or of parts full of texture.
        """
        ordered = np.sort(self.deviations)
        low, high = float(ordered[min(1, len(ordered) - 1)]), float(ordered[max(-2, -len(ordered))])
        return high / low if low > 0 else np.inf


def noise_levels(images: NDArray[Any]) -> NoiseLevels:
    """Find the noise of images, by medians of what a filter leaves that is blind to smooth structure.

    Parameters
    ----------
    images : (M, H, W, channels) array
        Integers or floats, at least 3 x 3 pixels.

    Returns
    -------
    NoiseLevels
        In the units of the images.
    """
    residuals, brightness = [], []
    for image in images:
        for first in range(0, len(image) - 2, _LINES):
            windows = sliding_window_view(image[first : first + _LINES + 2].astype(np.float32), (3, 3), axis=(0, 1))
            residuals.append(np.abs((windows * _FILTER).sum(axis=(-2, -1))).ravel())
            brightness.append(windows.mean(axis=(-2, -1)).ravel())
    residual, level = np.concatenate(residuals), np.concatenate(brightness)
    edges = np.quantile(level, np.linspace(0, 1, _BINS + 1))
    bins = np.clip(np.searchsorted(edges, level, side="right") - 1, 0, _BINS - 1)
    parts = [residual[bins == k] for k in range(_BINS)]
    medians = np.array([np.median(part) for part in parts if len(part)])
    return NoiseLevels(medians / _MEDIAN_OF_ABSOLUTE_NORMAL)
