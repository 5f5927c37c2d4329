"""Decodes one image of unknown origin to uint8 pixels, or says why it cannot be used.

Owns the limits on what a decoder is given: a few raster formats, a number of pixels, 8 bits per channel. Imports
`image_sources`, NumPy and Pillow.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from data_prep.image_sources import Entry

FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "GIF", "TIFF")

Pixels = npt.NDArray[np.uint8]
"""One image, shape (height, width, channels)."""


def load_decoders() -> None:
    """Load Pillow's decoders, which is not safe from several threads; call it before they start."""
    Image.init()


def decode(entry: Entry, size: tuple[int, int] | None, channels: int) -> Pixels | str:
    """Return the pixels of an entry, or the reason why there are none.

    Parameters
    ----------
    entry : Entry
        A file, the bytes of one, or a refusal, which is passed on.
    size : (int, int) or None
        Height and width to crop and resize to; None leaves the image as it is.
    channels : {1, 3}
        Grey or RGB.

    Returns
    -------
    Pixels or str
        Shape (height, width, channels) uint8, or the reason.
    """
    if entry.content is None:
        return entry.refusal
    stream = BytesIO(entry.content) if isinstance(entry.content, bytes) else entry.content
    try:
        with Image.open(stream, formats=FORMATS) as image:
            return _refusal(image) or _pixels(image, size, channels)
    except MemoryError:
        raise
    except UnidentifiedImageError:
        return f"not an image in one of the formats {', '.join(FORMATS)}"
    except Exception as error:  # decoders meet damage with OSError, SyntaxError, struct.error, IndexError and others
        return f"cannot be decoded: {error}"


def _refusal(image: Image.Image) -> str:
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and image.width * image.height > limit:
        return f"{image.height} x {image.width} pixels, more than the limit of {limit}"
    if image.mode.startswith(("I", "F")):
        return f"more than 8 bits per channel (mode {image.mode})"
    return ""


def _pixels(image: Image.Image, size: tuple[int, int] | None, channels: int) -> Pixels:
    upright = ImageOps.exif_transpose(image)
    if upright.mode in ("P", "PA"):
        upright = upright.convert("RGBA")  # to RGB directly, Pillow warns about palettes with transparency
    upright = upright.convert("L" if channels == 1 else "RGB")
    if size is not None:
        upright = _resized(upright, *size)
    return np.asarray(upright, dtype=np.uint8).reshape(upright.height, upright.width, channels)


def _resized(image: Image.Image, height: int, width: int) -> Image.Image:
    # Not ImageOps.fit: its filter also reads pixels outside of the crop.
    scale = min(image.height / height, image.width / width)
    crop_height, crop_width = max(1, round(scale * height)), max(1, round(scale * width))
    top, left = (image.height - crop_height) // 2, (image.width - crop_width) // 2
    cropped = image.crop((left, top, left + crop_width, top + crop_height))
    return cropped.resize((width, height), Image.Resampling.BILINEAR)
