"""Rows as images: those a model finds ordinary and odd, and images before and after denoising.

May import: run, apply, plot, numpy, matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.apply.model_rows import as_source
from vmfa_dask.plot.picture import Picture, checked_number, draw_grids, image_shape, show_image, value_range
from vmfa_dask.run.row_source import gather

_INCHES = 9.0  # width of a triptych


def by_density(
    model: MixtureModel,
    x: Any,
    n: int = 10,
    data_range: Sequence[float] | None = None,
    *,
    array: str | None = None,
    sample_dim: str | None = None,
    shape: Sequence[int] | None = None,
) -> Picture:
    """Draw the images of lowest and highest log-density under a model.

    Parameters
    ----------
    model : MixtureModel
        Of images.
    x, array, sample_dim
        Rows, as in `MixtureModel.score_samples`; only those that are drawn are held in memory.
    n : int
        Number of images of each kind.
    data_range : (float, float), optional
        Values that are drawn black and white; by default 0 and 255 for uint8, else the smallest and largest one that is
        drawn.
    shape : tuple of int, optional
        Shape of the images, if the rows of the model are flat.

    Returns
    -------
    Picture
        A figure with one axes per image, and its log-density in nats above it: first the lowest ones, lowest first,
        then the highest ones, highest first.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        As `MixtureModel.score_samples`, and when rows are no images.
    """
    image = image_shape(model.feature_shape, shape)
    source = as_source(model.mixture, x, array, sample_dim)
    n = checked_number(n, source.n_rows)
    scores = np.asarray(model.score_samples(x, array, sample_dim))
    order = np.argsort(scores, kind="stable")
    chosen = np.concatenate([order[:n], order[::-1][:n]])
    images = gather(source, chosen).reshape(-1, *image)
    titles = [f"{scores[row]:.6g}" for row in chosen]
    grids = [
        (f"lowest of {len(scores):,} log-densities (nats)", images[:n], titles[:n]),
        ("highest", images[n:], titles[n:]),
    ]
    return draw_grids(grids, value_range(images, data_range), min(max(n, 5), 10))


def triptych(
    clean: NDArray[Any], noisy: NDArray[Any], denoised: NDArray[Any], data_range: Sequence[float] | None = None
) -> Picture:
    """Draw an image, the same with noise, and what denoising makes of it, with their signal-to-noise ratios.

    Parameters
    ----------
    clean, noisy, denoised : (height, width), (height, width, 1) or (height, width, 3) array
        Grey levels or colours of one scale.
    data_range : (float, float), optional
        Values that are drawn black and white; by default 0 and 255 if `clean` is uint8, else its smallest and largest
        one. The peak of the ratios is their difference.

    Returns
    -------
    Picture
        A figure of three axes; the titles of the last two have the peak signal-to-noise ratio in dB.

    Raises
    ------
    ValueError
        When the arrays are no images, or of different shapes.
    """
    images = [np.asarray(image) for image in (clean, noisy, denoised)]
    shapes = [image.shape for image in images]
    if len(set(shapes)) > 1:
        raise ValueError(f"clean, noisy and denoised have the shapes {shapes}, expected equal ones")
    shape = image_shape(shapes[0])
    limits = value_range(images[0], data_range)
    height = _INCHES / 3 * shape[0] / shape[1]
    picture = Picture(figsize=(_INCHES, height + 0.4), facecolor="white")
    panels = picture.subplots(1, 3)
    picture.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=height / (height + 0.4), wspace=0.02)
    for axes, name, image in zip(panels, ("clean", "noisy", "denoised"), images, strict=True):
        show_image(axes, image.reshape(shape), limits)
        axes.set_title(name if name == "clean" else f"{name}, {_psnr(images[0], image, limits[1] - limits[0]):.2f} dB")
    return picture


def _psnr(clean: NDArray[Any], image: NDArray[Any], peak: float) -> float:
    """Peak signal-to-noise ratio in dB; infinite for equal images."""
    error = float(np.mean((clean.astype(np.float64) - image) ** 2))
    return 10.0 * float(np.log10(peak**2 / error)) if error else float("inf")
