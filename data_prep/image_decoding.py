"""Decodes one image of unknown origin to uint8 pixels, or says why it cannot be used.

Owns the limits on what a decoder is given: a few raster formats, a number of pixels, 8 bits per channel. Imports
`image_entries`, NumPy and Pillow.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from data_prep.image_entries import Entry

FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "GIF", "TIFF")

Pixels = npt.NDArray[np.uint8]
"""One image, shape (height, width, channels)."""

_loading = threading.Lock()


@dataclass(frozen=True)
class Shaping:
    """How an image becomes a row.

    Attributes
    ----------
    size : (int, int) or None
        Height and width to resize to, after a crop; None leaves the image as it is.
    channels : {1, 3}
        Grey or RGB.
    crop : (int, int, int, int) or None
        Left, top, width and height of a rectangle that is cut out and resized by the mean over pixels. By default the
        largest one of the aspect ratio of `size` around the centre, resized bilinearly.

    Raises
    ------
    ValueError
        When a value is out of range.
    """

    size: tuple[int, int] | None = None
    channels: int = 3
    crop: tuple[int, int, int, int] | None = None

    def __post_init__(self) -> None:
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 1):
            raise ValueError(f"size must be (height, width), both at least 1, got {self.size}")
        if self.channels not in (1, 3):
            raise ValueError(f"channels must be 1 or 3, got {self.channels}")
        if self.crop is not None and (len(self.crop) != 4 or min(self.crop[:2]) < 0 or min(self.crop[2:]) < 1):
            raise ValueError(f"crop must be (left, top, width, height) of a rectangle inside an image, got {self.crop}")


def load_decoders() -> None:
    """Load Pillow's decoders, which is not safe from several threads; call it before decoding."""
    with _loading:
        Image.init()


def decode(entry: Entry, shaping: Shaping) -> Pixels | str:
    """Return the pixels of an entry, or the reason why there are none.

    Parameters
    ----------
    entry : Entry
        A file, the bytes of one, or a refusal, which is passed on.
    shaping : Shaping
        What becomes of the image.

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
            return _refusal(image) or _pixels(image, shaping)
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


def _pixels(image: Image.Image, shaping: Shaping) -> Pixels | str:
    upright = _upright(image)
    if upright.mode in ("P", "PA"):
        upright = upright.convert("RGBA")  # to RGB directly, Pillow warns about palettes with transparency
    mode = "L" if shaping.channels == 1 else "RGB"
    if upright.mode != mode:
        upright = upright.convert(mode)
    if shaping.crop is not None:
        left, top, width, height = shaping.crop
        if left + width > upright.width or top + height > upright.height:
            return f"{upright.height} x {upright.width} pixels, too small for the crop {shaping.crop}"
        upright = upright.crop((left, top, left + width, top + height))
        if shaping.size is not None:
            upright = upright.resize(shaping.size[::-1], Image.Resampling.BOX)
    elif shaping.size is not None:
        upright = _resized(upright, *shaping.size)
    return np.asarray(upright, dtype=np.uint8).reshape(upright.height, upright.width, shaping.channels)


def _upright(image: Image.Image) -> Image.Image:
    # Looking for an orientation costs as much as decoding a small image, and JPEG says at once when there is none.
    if image.format == "JPEG" and "exif" not in image.info and "xmp" not in image.info:
        return image
    return ImageOps.exif_transpose(image)


def _resized(image: Image.Image, height: int, width: int) -> Image.Image:
    # Not ImageOps.fit: its filter also reads pixels outside of the crop.
    scale = min(image.height / height, image.width / width)
    crop_height, crop_width = max(1, round(scale * height)), max(1, round(scale * width))
    top, left = (image.height - crop_height) // 2, (image.width - crop_width) // 2
    cropped = image.crop((left, top, left + crop_width, top + crop_height))
    return cropped.resize((width, height), Image.Resampling.BILINEAR)
