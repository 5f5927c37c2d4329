"""What all pictures share: the figure, and images in it. May import: values, numpy, matplotlib."""

from __future__ import annotations

import io
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from vmfa_dask.values import Float64

Range = tuple[float, float]

BLUE, ORANGE, GREY = "#1f5fa8", "#d97706", "#5f6b7a"
# Sides of an image and of what is around it, in inches.
_WIDTH, _GAP, _MARGIN, _TITLE, _NUMBER = 0.8, 0.08, 0.1, 0.4, 0.22


class Picture(Figure):
    """A figure of matplotlib that notebooks show without pyplot; takes the parameters of ``Figure``."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()


def checked_number(n: int, largest: int) -> int:
    """How many things to draw.

    Parameters
    ----------
    n : int
        As the user has it.
    largest : int
        As many as there are.

    Returns
    -------
    int
        At most `largest`.

    Raises
    ------
    ValueError
        When it is less than 1.
    """
    n = operator.index(n)
    if n < 1:
        raise ValueError(f"n={n}: expected at least 1")
    return min(n, largest)


def image_shape(feature_shape: Sequence[int], shape: Sequence[int] | None = None) -> tuple[int, ...]:
    """Shape of the image that a row is.

    Parameters
    ----------
    feature_shape : sequence of int
        Shape of the rows of a model.
    shape : sequence of int, optional
        Shape of the images whose pixels the rows are; by default `feature_shape`.

    Returns
    -------
    tuple of int
        (height, width) of a grey image, (height, width, 3) of a colour image.

    Raises
    ------
    ValueError
        When rows of this shape are no images.
    """
    found = tuple(feature_shape if shape is None else shape)
    axes = found[:2] if len(found) == 3 and found[2] == 1 else found
    if len(axes) != 2 and not (len(axes) == 3 and axes[2] == 3):
        remedy = "" if shape is not None else "; name the shape of the images by shape=(height, width)"
        raise ValueError(
            f"{'rows of shape ' if shape is None else 'shape='}{found} are no images: expected (height, width), or "
            f"(height, width, 3) for colours{remedy}"
        )
    if np.prod(found) != np.prod(feature_shape):
        raise ValueError(f"shape={found}: expected the {np.prod(feature_shape)} features of a row as the pixels")
    return axes


def value_range(images: NDArray[Any], data_range: Sequence[float] | None) -> Range:
    """Values that are drawn black and white.

    Parameters
    ----------
    images : array
        Of any shape.
    data_range : (float, float) or None
        As the user has it; None for 0 to 255 where images are uint8, else for the range of their values.

    Returns
    -------
    (float, float)
        The first is smaller.

    Raises
    ------
    ValueError
        When the range is none.
    """
    if data_range is None:
        if images.dtype == np.uint8:
            return 0.0, 255.0
        low, high = float(images.min()), float(images.max())
        return low, high if high > low else low + 1.0
    low, high = map(float, data_range)
    if not low < high:
        raise ValueError(f"data_range={(low, high)}: expected the values of black and white, the first one smaller")
    return low, high


def show_image(axes: Axes, image: NDArray[Any], limits: Range) -> None:
    """Draw an image, and no axes around it.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where.
    image : (height, width) or (height, width, 3) array
        Grey levels or colours.
    limits : (float, float)
        Values that are drawn black and white; those outside are clipped.
    """
    axes.set_axis_off()
    if image.ndim == 2:
        axes.imshow(image, cmap="gray", vmin=limits[0], vmax=limits[1])
    else:
        axes.imshow(as_unit(image, limits))


def as_unit(values: NDArray[Any], limits: Range) -> Float64:
    """Scale values to the range from 0 to 1, in which matplotlib takes colours.

    Parameters
    ----------
    values : array
        Of any shape.
    limits : (float, float)
        What becomes 0 and 1; values outside are clipped.

    Returns
    -------
    float64 array
        Of the same shape.
    """
    low, high = limits
    scaled: Float64 = np.clip((np.asarray(values, np.float64) - low) / (high - low), 0.0, 1.0)
    return scaled


def draw_grids(
    grids: Sequence[tuple[str, NDArray[Any], Sequence[str]]], limits: Range, n_columns: int
) -> Picture:
    """Draw images in rows, under a title for each grid.

    Parameters
    ----------
    grids : sequence of (str, array, sequence of str)
        Title, images of one shape (n, height, width) or (n, height, width, 3), and what is written above each of them;
        an empty sequence for nothing.
    limits : (float, float)
        Values that are drawn black and white.
    n_columns : int
        Images side by side.

    Returns
    -------
    Picture
        With one axes per image, in their order.
    """
    first = grids[0][1]
    height = _WIDTH * first.shape[1] / first.shape[2]
    steps = [height + _GAP + (_NUMBER if numbers else 0.0) for _, _, numbers in grids]
    lines = [-(-len(images) // n_columns) for _, images, _ in grids]
    total = _MARGIN + sum(_TITLE + n * step for n, step in zip(lines, steps, strict=True))
    width = 2 * _MARGIN + n_columns * (_WIDTH + _GAP) - _GAP
    picture, top = Picture(figsize=(width, total), facecolor="white"), total
    for (title, images, numbers), step, n_lines in zip(grids, steps, lines, strict=True):
        picture.text(_MARGIN / width, (top - 0.6 * _TITLE) / total, title, fontsize=11, color=GREY)
        for k, image in enumerate(images):
            line, column = divmod(k, n_columns)
            left, bottom = _MARGIN + column * (_WIDTH + _GAP), top - _TITLE - (line + 1) * step + _GAP
            axes = picture.add_axes((left / width, bottom / total, _WIDTH / width, height / total))
            show_image(axes, image, limits)
            if numbers:
                axes.set_title(numbers[k], fontsize=8, pad=2)
        top -= _TITLE + n_lines * step
    return picture
