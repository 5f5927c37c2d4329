"""Image files of several frames to test with."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from tests.data_prep.image_files import noise

FORMATS = {"gif": {}, "png": {}, "tiff": {}, "webp": {"lossless": True}}


def grey(seed: int, height: int = 6, width: int = 8) -> npt.NDArray[np.uint8]:
    """Return random grey pixels (height, width, 3), which every format keeps exactly."""
    return np.repeat(noise(seed, height, width, 1), 3, axis=2)


def animated(frames: Sequence[npt.NDArray[np.uint8]], image_format: str, **options: Any) -> bytes:
    """Return a file of frames (height, width, 3) of equal channels."""
    mode = "RGB" if image_format == "webp" else "L"
    first, *others = [Image.fromarray(frame).convert(mode) for frame in frames]
    stream = io.BytesIO()
    first.save(stream, image_format, save_all=True, append_images=others, **FORMATS[image_format], **options)
    return stream.getvalue()


def tiff_pages(pages: Sequence[tuple[npt.NDArray[Any], dict[int, int]]]) -> bytes:
    """Return a TIFF of pages of any sizes and modes, each with tags of its own."""
    images = []
    for pixels, tags in pages:
        image = Image.fromarray(pixels)
        image.encoderinfo = {"tiffinfo": tags}
        images.append(image)
    stream = io.BytesIO()
    images[0].save(stream, "tiff", save_all=True, append_images=images[1:], tiffinfo=pages[0][1])
    return stream.getvalue()
