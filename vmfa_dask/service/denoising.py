"""`denoise`: images without noise from a mixture of their own patches. May import: run, apply, service, numpy."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.apply.image_scale import as_images
from vmfa_dask.apply.noise_level import noise_levels
from vmfa_dask.apply.patch_estimates import merged_estimates
from vmfa_dask.apply.patches import Merge, PatchRows
from vmfa_dask.run.numbers import plain
from vmfa_dask.run.settings import PAPER, Settings
from vmfa_dask.runtime.threads import Cores, available_cores
from vmfa_dask.service.options import Progress, make_options
from vmfa_dask.service.patch_fits import fit_patches
from vmfa_dask.service.progress import display_of

Quality = Literal["paper", "auto"]
# The paper's sizes, and patches per component, at least, where the number of components is not given.
_COMPONENTS, _FACTORS, _PATCH, _FEWEST_PATCHES = 1000, 5, (12, 12), 30
# "auto": two models, whose errors differ. More factors than the image can fill do no harm where noise has a floor, but
# each component needs patches to learn them from, and larger images repeat themselves.
_AUTO_FACTORS, _AUTO_PATCHES, _PATCHES_PER_PIXEL, _DIFFERENT_PATCHES = 20, ((12, 12), (8, 8)), 4, 62_500
# Factors that explain less than a tenth above the noise are noise of the patches that they were learned from.
_NOISE_FLOOR = 1.1
# Noise that varies more with brightness than this is no white noise.
_LARGEST_VARIATION = 1.3


def denoise(
    image: Any,
    *,
    n_components: int | None = None,
    n_factors: int | None = None,
    patch: tuple[int, int] | None = None,
    quality: Quality = "paper",
    merge: Merge = "median",
    stack: bool = False,
    random_state: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
    verbose: int | None = None,
) -> NDArray[Any]:
    """Remove the noise of an image, from the image alone (paper, sec:denoising).

    A mixture is trained on all overlapping patches. Each patch is replaced by what its kept components expect it to be
    without noise (eq:de_mfa_approx), and each pixel by the median or mean of its estimates. Nothing is known of the
    noise but that it is independent from pixel to pixel.

    Parameters
    ----------
    image : array_like of shape (H, W) or (H, W, channels)
        Integers or floats in any range; with ``stack=True``, (M, H, W) or (M, H, W, channels).
    n_components : int, optional
        C; by default 1000, and no more than one for each 30 patches. With "auto", the number of patches over four times
        the pixels of a patch; beyond images of 256 x 256 pixels it grows as the root of the number of patches.
    n_factors : int, optional
        H, by default 5, and 20 with "auto".
    patch : (int, int), optional
        Height and width of the patches, by default (12, 12); "auto" trains a second mixture on (8, 8).
    quality : {"paper", "auto"}
        The paper's settings; or, where the noise does not depend on brightness, the mean of two mixtures of centred
        patches, whose noise variances are shared and not below the noise of the image (elsewhere, the paper's). It
        takes about three times as long.
    merge : {"median", "mean"}
        How the estimates of a pixel become one; the paper takes the median.
    stack : bool
        Whether the first axis counts images; one mixture serves all of them.
    random_state : int
        Seed of the training.
    threads : int, optional
        Threads that compute; by default as many as cores are available. The result does not depend on it.
    progress : callable, optional
        Called with the `IterationRecord` of each pass.
    verbose : int, optional
        Whether to show how the training goes, as in `fit_distributed`.

    Returns
    -------
    array
        Of the shape and dtype of `image`, and in its units. Integers are rounded and clipped to their dtype.

    Raises
    ------
    ValueError
        For NaN and infinity, other shapes and dtypes, images smaller than a patch, and settings that cannot be trained
        on so many patches.

    Examples
    --------
    >>> import numpy as np
    >>> from vmfa_dask import denoise
    >>> clean = np.tile(np.arange(40.0), (40, 1))
    >>> noisy = clean + np.random.default_rng(0).normal(0, 5, clean.shape)
    >>> denoised = denoise(noisy, n_components=4, n_factors=1, patch=(6, 6))
    >>> bool(np.std(denoised - clean) < 0.5 * np.std(noisy - clean))
    True
    """
    for name, value, allowed in (("quality", quality, get_args(Quality)), ("merge", merge, get_args(Merge))):
        if value not in allowed:
            raise ValueError(f"{name}={value!r}: expected one of {allowed}")
    options = make_options(threads=threads, progress=progress, verbose=verbose)
    images, scale = as_images(image, stack)
    asked = _Asked(n_components, n_factors, None if patch is None else _checked_patch(patch), random_state)
    models = _paper_models(images, asked) if quality == "paper" else _auto_models(images, asked)
    if scale.is_constant:
        return scale.restored(images)
    cores = Cores(options.threads or available_cores())
    estimates = []
    for rows, settings in models:
        with display_of(options) as observer:
            fit = fit_patches(rows, settings, cores, progress, observer)
        estimates.append(merged_estimates(fit.mixture, rows, fit.components, merge, cores))
    return scale.restored(np.mean(estimates, axis=0))


class _Asked(NamedTuple):
    """What a call may leave to the quality."""

    n_components: int | None
    n_factors: int | None
    patch: tuple[int, int] | None
    random_state: int


def _checked_patch(patch: Any) -> tuple[int, int]:
    size = plain(patch)
    if not (isinstance(size, tuple | list) and len(size) == 2 and all(type(n) is int and n > 0 for n in size)):
        raise ValueError(f"patch={patch!r}: expected height and width in pixels, such as (12, 12)")
    return size[0], size[1]


def _paper_models(images: NDArray[Any], asked: _Asked) -> list[tuple[PatchRows, Settings]]:
    """What the paper trains."""
    rows = PatchRows(images, asked.patch or _PATCH)
    default = max(1, min(_COMPONENTS, rows.n_rows // _FEWEST_PATCHES))
    return [(rows, _settings(rows, asked, default, _FACTORS))]


def _auto_models(images: NDArray[Any], asked: _Asked) -> list[tuple[PatchRows, Settings]]:
    """Models that know how strong the noise is, where one number says so."""
    by_the_paper = _paper_models(images, asked)  # checks sizes, too
    noise = noise_levels(images)
    if noise.variation > _LARGEST_VARIATION:
        return by_the_paper
    floor = {"noise": "shared", "reg_covar": max((_NOISE_FLOOR * noise.typical) ** 2, PAPER["reg_covar"])}
    models = []
    for patch in (asked.patch,) if asked.patch else _AUTO_PATCHES:
        rows = PatchRows(images, patch, centred=True)
        different = min(rows.n_rows, math.isqrt(rows.n_rows * _DIFFERENT_PATCHES))
        default = max(1, different // (_PATCHES_PER_PIXEL * patch[0] * patch[1]))
        models.append((rows, _settings(rows, asked, default, _AUTO_FACTORS, **floor)))
    return models


def _settings(rows: PatchRows, asked: _Asked, n_components: int, n_factors: int, **changes: Any) -> Settings:
    """Settings with the sizes that were asked for, or else the given ones."""
    c = n_components if asked.n_components is None else asked.n_components
    n_features = int(np.prod(rows.feature_shape))
    h = min(n_factors, n_features - 1) if asked.n_factors is None else asked.n_factors
    settings = Settings.paper(c, h, random_state=asked.random_state, **changes)
    settings.check_against(rows.n_rows, n_features, "patches of the image")
    return settings
