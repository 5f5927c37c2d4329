"""How strong the noise of an image is, from the image alone. May import: apply, numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.apply.patches import PatchRows

# Small patches: in most directions they vary by noise alone. Their covariance has 49 rows, whatever the model's D.
_PATCH = (7, 7)
_BLOCK_ROWS = 16_384


def noise_level(images: NDArray[Any]) -> float:
    """Standard deviation of white noise.

    Patches of natural images vary in few directions, noise in all. So variances along the principal directions of small
    patches are dropped from the largest on, until mean and median of the rest agree (Chen, Zhu and Heng, ICCV 2015).

    Parameters
    ----------
    images : (M, H, W, channels) array
        Integers or floats.

    Returns
    -------
    float
        In the units of the images; channels count as independent.
    """
    patch = (min(_PATCH[0], images.shape[1]), min(_PATCH[1], images.shape[2]))
    variances = np.linalg.eigvalsh(_covariance(PatchRows(images, patch)))
    for n in range(len(variances), 1, -1):
        level = variances[:n].mean()
        if level <= np.median(variances[:n]):
            break
    return float(np.sqrt(max(level, 0.0)))


def _covariance(rows: PatchRows) -> NDArray[np.float64]:
    """Covariance of small rows, (D, D), in two passes."""
    blocks = [(start, min(start + _BLOCK_ROWS, rows.n_rows)) for start in range(0, rows.n_rows, _BLOCK_ROWS)]
    mean = sum(rows.read(*block).sum(axis=0, dtype=np.float64) for block in blocks) / rows.n_rows
    covariance: NDArray[np.float64] = np.zeros((len(mean), len(mean)))
    for block in blocks:
        deviations = rows.read(*block) - mean
        covariance += deviations.T @ deviations
    covariance /= rows.n_rows
    return covariance
