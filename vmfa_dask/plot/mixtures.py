"""What a model looks like: its components, and rows that it makes.

May import: values, apply, plot, numpy, matplotlib.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from numpy.typing import NDArray

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.plot.picture import GREY, Picture, Range, as_unit, checked_number, draw_grids, image_shape, value_range
from vmfa_dask.values import Float64, Int64

# Lighter components, in parts of an equal share, stand for single odd rows and have hardly any factors to show.
_SMALLEST_SHARE = 0.1
# Inches: the width of an image, what is between strips, the weight beside a strip, the width of all strips.
_TILE, _GAP, _LABEL, _NARROWEST, _WIDEST = 0.6, 0.13, 0.65, 4.5, 13.8
_LINE, _CHARACTERS = 0.24, 14.0  # height of a line of text, and its characters per inch
_PIXELS = 96  # of small images, so that gaps between them can be narrow
_CAPTION = "weight · mean · factors, the longest first"
_SIGNS = {
    2: " (red and blue change in opposite directions; one colour scale per component)",
    3: " (colours that change, on grey; one scale per component)",
}


def components(
    model: MixtureModel,
    n: int = 42,
    data_range: Sequence[float] | None = None,
    *,
    shape: Sequence[int] | None = None,
) -> Picture:
    """Draw components of images: the weight, the mean and the factors of each.

    Factors are determined only up to a rotation. They are drawn along their principal axes, so that the first one
    explains the most variance.

    Parameters
    ----------
    model : MixtureModel
        Of images: rows of shape (height, width), (height, width, 1) or (height, width, 3).
    n : int
        Number of components, evenly spaced in the order of their weights. Components with less than a tenth of an equal
        share of the weight are left out.
    data_range : (float, float), optional
        Values of the means that are drawn black and white; by default their smallest and largest one.
    shape : tuple of int, optional
        Shape of the images, if the rows of the model are flat.

    Returns
    -------
    Picture
        A figure with one axes per component, the heaviest first, whose label is the number of the component.

    Raises
    ------
    ValueError
        When rows are no images, or `n` or `data_range` is outside its range.
    """
    image = image_shape(model.feature_shape, shape)
    chosen = _chosen(model.weights, n)
    means = model.means[chosen].reshape(-1, *image)
    limits = value_range(means, data_range)
    strips = [
        _strip(mean, _principal_factors(model.loadings[c]).reshape(-1, *image), limits)
        for c, mean in zip(chosen, means, strict=True)
    ]
    caption = f"{_CAPTION}{_SIGNS[len(image)]}" if model.n_factors else "weight · mean"
    title = f"{len(chosen)} of {model.n_components} components, sorted by weight"
    inches_per_pixel = _TILE / (image[1] * _upscaling(image))
    labels = [(str(c), f"{model.weights[c]:.2%}") for c in chosen]
    return _draw_strips(strips, labels, title, caption, inches_per_pixel)


def samples(
    model: MixtureModel,
    n: int = 40,
    data_range: Sequence[float] | None = None,
    *,
    random_state: int = 0,
    shape: Sequence[int] | None = None,
) -> Picture:
    """Draw images that a model makes (`MixtureModel.sample`).

    Parameters
    ----------
    model : MixtureModel
        Of images.
    n : int
        Number of images.
    data_range : (float, float), optional
        Values that are drawn black and white; by default the smallest and largest one.
    random_state : int
        Of the sample.
    shape : tuple of int, optional
        Shape of the images, if the rows of the model are flat.

    Returns
    -------
    Picture
        A figure with one axes per image.

    Raises
    ------
    ValueError
        When rows are no images, or `n`, `data_range` or `random_state` is outside its range.
    """
    image, n = image_shape(model.feature_shape, shape), checked_number(n, 10_000)
    rows, _ = model.sample(n, random_state)
    images = rows.reshape(n, *image)
    return draw_grids([(f"{n} samples", images, ())], value_range(images, data_range), min(n, 10))


def _draw_strips(
    strips: list[Float64], labels: list[tuple[str, str]], title: str, caption: str, inches_per_pixel: float
) -> Picture:
    """A figure with strips in columns, each with the label of its axes and the text beside it."""
    height, width = (inches_per_pixel * size for size in strips[0].shape[:2])
    n_columns = int(np.clip(_WIDEST // (width + _LABEL), 1, min(3, len(strips))))
    n_lines = -(-len(strips) // n_columns)
    total_width = max(_NARROWEST, n_columns * (width + _LABEL) + _GAP)
    first_left = (total_width - n_columns * (width + _LABEL) - _GAP) / 2 + _LABEL
    texts = [title, *textwrap.wrap(caption, int(_CHARACTERS * total_width))]
    below_texts = n_lines * (height + _GAP)
    total = below_texts + _LINE * (len(texts) + 1.2)
    picture = Picture(figsize=(total_width, total), facecolor="white")
    for k, text in enumerate(texts):
        top = 1.0 - _LINE * (k + 0.5) / total
        picture.text(0.5, top, text, ha="center", va="top", fontsize=9 if k else 12, color=GREY if k else "black")
    for k, (strip, (label, beside)) in enumerate(zip(strips, labels, strict=True)):
        column, line = divmod(k, n_lines)
        left, bottom = first_left + column * (width + _LABEL), below_texts - (line + 1) * (height + _GAP) + _GAP
        box = (left / total_width, bottom / total, width / total_width, height / total)
        axes = picture.add_axes(box, label=label)
        axes.set_axis_off()
        axes.imshow(strip)
        axes.text(-0.02, 0.5, beside, transform=axes.transAxes, ha="right", va="center", fontsize=9, color=GREY)
    return picture


def _chosen(weights: Float64, n: int) -> Int64:
    """Components evenly spaced in the order of their weights, over all but the lightest ones."""
    order = np.argsort(-weights, kind="stable")
    common = order[weights[order] >= _SMALLEST_SHARE / len(weights)]
    chosen: Int64 = common[np.linspace(0, len(common) - 1, checked_number(n, len(common))).astype(np.int64)]
    return chosen


def _principal_factors(loadings: NDArray[np.floating[Any]]) -> Float64:
    """Loadings (H, D) of a component rotated to their principal axes, the longest first, with positive sums."""
    _, lengths, axes = np.linalg.svd(loadings.astype(np.float64), full_matrices=False)
    factors = lengths[:, None] * axes
    signed: Float64 = np.where(factors.sum(axis=1, keepdims=True) < 0, -factors, factors)
    return signed


def _upscaling(image: tuple[int, ...]) -> int:
    return max(1, _PIXELS // max(image[:2]))


def _strip(mean: Float64, factors: Float64, limits: Range) -> Float64:
    """The mean of a component and its factors side by side with white gaps, (height, width, 3) from 0 to 1."""
    # A component that owns a single row has no factors: noise is not blown up to full contrast.
    scale = max(float(np.abs(factors).max(initial=0.0)), (limits[1] - limits[0]) / 255.0)
    tiles = [as_unit(mean, limits), *(0.5 + 0.5 * factors / scale)]
    if mean.ndim == 2:
        maps = ["gray"] + ["RdBu_r"] * len(factors)
        tiles = [matplotlib.colormaps[name](tile)[..., :3] for name, tile in zip(maps, tiles, strict=True)]
    upscaling, width = _upscaling(mean.shape), mean.shape[1] * _upscaling(mean.shape)
    gaps = [0, max(1, width // 6), *[max(1, width // 24)] * (len(tiles) - 2)][: len(tiles)]
    padded = [
        np.pad(
            tile.repeat(upscaling, axis=0).repeat(upscaling, axis=1), ((0, 0), (gap, 0), (0, 0)), constant_values=1.0
        )
        for tile, gap in zip(tiles, gaps, strict=True)
    ]
    return np.concatenate(padded, axis=1)
