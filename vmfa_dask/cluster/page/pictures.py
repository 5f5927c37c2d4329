"""Small pictures of components: made by the driver, and written as HTML on the page. May import: numpy."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_PICTURES = 12
_LONGEST_SIDE = 32
_SHORTEST_SIDE = 4


def picture_axes(feature_shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """How the axes of a row become those of a picture.

    Parameters
    ----------
    feature_shape : tuple of int
        Shape of one row.

    Returns
    -------
    tuple of int or None
        Axes in the order height, width, and channels where there are some; None where rows are no pictures.
    """
    if len(feature_shape) == 2:
        axes: tuple[int, ...] = (0, 1)
    elif len(feature_shape) == 3 and feature_shape[2] in (1, 3, 4):
        axes = (0, 1, 2)
    elif len(feature_shape) == 3 and feature_shape[0] in (1, 3, 4):
        axes = (1, 2, 0)
    else:
        return None
    return axes if min(feature_shape[axes[0]], feature_shape[axes[1]]) >= _SHORTEST_SIDE else None


def make_pictures(means: NDArray[Any], feature_shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Means as pictures of at most 32 × 32 pixels, all in one scale from black to white.

    Parameters
    ----------
    means : (n, D) array
        Means in the units of the data.
    feature_shape : tuple of int
        Shape of one row; `picture_axes` must know it.

    Returns
    -------
    (n, height, width, 1 or 3) uint8 array
    """
    axes = picture_axes(feature_shape)
    assert axes is not None
    pictures = np.asarray(means, np.float64).reshape(-1, *feature_shape).transpose(0, *(axis + 1 for axis in axes))
    pictures = pictures.reshape(*pictures.shape[:3], -1)[..., :3]
    pictures = _shrunk(_shrunk(pictures, 1), 2)
    low, high = pictures.min(), pictures.max()
    scaled = (pictures - low) * (255.0 / (high - low) if high > low else 0.0)
    return np.asarray(np.rint(scaled), np.uint8)


def _shrunk(pictures: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Mean over neighbouring pixels along one axis, so that few enough remain."""
    size = pictures.shape[axis]
    if size <= _LONGEST_SIDE:
        return pictures
    edges = np.linspace(0, size, _LONGEST_SIDE + 1).astype(int)
    sums = np.add.reduceat(pictures, edges[:-1], axis)
    shape = [1] * pictures.ndim
    shape[axis] = _LONGEST_SIDE
    return np.asarray(sums / np.diff(edges).reshape(shape))


def as_png(picture: NDArray[np.uint8]) -> bytes:
    """A picture as the contents of a PNG file.

    Parameters
    ----------
    picture : (height, width, 1 or 3) uint8 array
        Its pixels.

    Returns
    -------
    bytes
    """
    height, width, channels = picture.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each line begins with its filter: none
    rows[:, 1:] = picture.reshape(height, -1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(rows.tobytes()))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b"")


def pictures_html(event: Mapping[str, Any]) -> str:
    """Pictures of components with their weights, as HTML.

    Parameters
    ----------
    event : mapping
        As the driver announces it: `shape` of the pictures, their `pixels`, and `components` and `weights`.

    Returns
    -------
    str
    """
    pictures = np.frombuffer(event["pixels"], np.uint8).reshape(event["shape"])
    cells = []
    for picture, component, weight in zip(pictures, event["components"], event["weights"], strict=True):
        data = base64.b64encode(as_png(picture)).decode()
        height, width = picture.shape[:2]
        scale = 76 / max(height, width)
        cells.append(
            f'<figure style="margin:0;width:80px;text-align:center">'
            f'<img alt="mean of component {int(component)}" src="data:image/png;base64,{data}" '
            f'style="width:{width * scale:.0f}px;height:{height * scale:.0f}px;image-rendering:pixelated;'
            f'border:1px solid #ccc"><figcaption style="font-size:11px;color:#555;line-height:1.4">'
            f"{int(component)}<br>{100 * weight:.2g} %</figcaption></figure>"
        )
    return f'<div style="display:flex;flex-wrap:wrap;gap:10px 18px">{"".join(cells)}</div>'
