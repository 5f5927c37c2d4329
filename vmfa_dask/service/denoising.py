"""`denoise`: images without noise from a mixture of their own patches. May import: run, apply, service, numpy."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.apply.image_scale import as_images
from vmfa_dask.apply.patch_estimates import merged_estimates
from vmfa_dask.apply.patches import Merge, PatchRows
from vmfa_dask.run.numbers import plain
from vmfa_dask.run.settings import Settings
from vmfa_dask.runtime.threads import Cores, available_cores
from vmfa_dask.service.options import Progress, make_options
from vmfa_dask.service.patch_fits import fit_patches

Quality = Literal["paper", "auto"]
_COMPONENTS, _FACTORS = 1000, 5
# Patches per component, at least, where the number of components is not given.
_FEWEST_PATCHES = 30


def denoise(
    image: Any,
    *,
    n_components: int | None = None,
    n_factors: int | None = None,
    patch: tuple[int, int] = (12, 12),
    quality: Quality = "paper",
    merge: Merge = "median",
    stack: bool = False,
    random_state: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
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
        C; by default 1000, and no more than one for each 30 patches.
    n_factors : int, optional
        H, by default 5.
    patch : (int, int)
        Height and width of the patches.
    quality : {"paper", "auto"}
        The paper's settings, or what suits the noise of the image.
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
    patch = plain(patch)
    if not (isinstance(patch, tuple | list) and len(patch) == 2 and all(type(n) is int and n > 0 for n in patch)):
        raise ValueError(f"patch={patch!r}: expected height and width in pixels, such as (12, 12)")
    threads = make_options(threads=threads).threads
    images, scale = as_images(image, stack)
    rows = PatchRows(images, (patch[0], patch[1]))
    if n_components is None:
        n_components = max(1, min(_COMPONENTS, rows.n_rows // _FEWEST_PATCHES))
    factors = _FACTORS if n_factors is None else n_factors
    settings = Settings.paper(n_components, factors, random_state=random_state)
    settings.check_against(rows.n_rows, int(np.prod(rows.feature_shape)), "patches of the image")
    if scale.is_constant:
        return scale.restored(images)
    cores = Cores(threads or available_cores())
    fit = fit_patches(rows, settings, cores, progress)
    return scale.restored(merged_estimates(fit.mixture, rows, fit.components, merge, cores))
