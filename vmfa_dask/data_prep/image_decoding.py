"""Decodes the frames of an image of unknown origin to uint8 pixels, or says why they cannot be used.

Owns the limits on what a decoder is given: a few raster formats, a number of pixels, 8 bits per channel. Imports
`image_entries`, NumPy and Pillow.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from vmfa_dask.data_prep.image_entries import Entry

FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "GIF", "TIFF")
FRAMES = ("first", "all")
MAX_FRAME_PIXELS = 64
"""All frames of a file together may have this many times the pixels allowed in one image."""
_SUBFILE_TYPE = 254
_REDUCED_OR_MASK = 0b101
_TAIL_BYTES = 4096

Pixels = npt.NDArray[np.uint8]
"""One image, shape (height, width, channels)."""

_loading = threading.Lock()


class Frame(NamedTuple):
    """One picture of a file, or the reason why it cannot be used.

    Parameters
    ----------
    number : int
        Counted from 1; 0 for the only picture of a file, and for a file without any usable one.
    pixels : (height, width, channels) uint8 array or None
        None if there is a `reason`.
    reason : str
        Empty if there are pixels.
    unused : int
        Number of further frames in the file, which were not asked for.
    """

    number: int
    pixels: Pixels | None
    reason: str = ""
    unused: int = 0


@dataclass(frozen=True)
class Shaping:
    """How an image becomes a row.

    Parameters
    ----------
    size : (int, int) or None
        Height and width to resize to, after a crop; None leaves the image as it is.
    channels : {1, 3}
        Grey or RGB.
    crop : (int, int, int, int) or None
        Left, top, width and height of a rectangle that is cut out and resized by the mean over pixels. By default it is
        the largest one around the centre with the aspect ratio of `size`, resized bilinearly.
    frames : {"first", "all"}
        Which pages or frames of a file become rows.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    size: tuple[int, int] | None = None
    channels: int = 3
    crop: tuple[int, int, int, int] | None = None
    frames: str = "first"

    def __post_init__(self) -> None:
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 1):
            raise ValueError(f"size must be (height, width), both at least 1, got {self.size}")
        if self.channels not in (1, 3):
            raise ValueError(f"channels must be 1 or 3, got {self.channels}")
        if self.crop is not None and (len(self.crop) != 4 or min(self.crop[:2]) < 0 or min(self.crop[2:]) < 1):
            raise ValueError(f"crop must be (left, top, width, height) of a rectangle inside an image, got {self.crop}")
        if self.frames not in FRAMES:
            raise ValueError(f"frames must be 'first' or 'all', got {self.frames!r}")


def load_decoders() -> None:
    """Load Pillow's decoders, which is not safe from several threads; call it before decoding."""
    with _loading:
        Image.init()


def decode(entry: Entry, shaping: Shaping) -> Iterator[Frame]:
    """Decode the frames of an entry.

    Parameters
    ----------
    entry : Entry
        A file, the bytes of one, or a refusal, which is passed on.
    shaping : Shaping
        How images become rows, and whether all frames are wanted.

    Yields
    ------
    Frame
        At least one; damage becomes a frame with a reason.
    """
    if entry.content is None:
        yield Frame(0, None, entry.refusal)
        return
    stream = BytesIO(entry.content) if isinstance(entry.content, bytes) else entry.content
    try:
        with Image.open(stream, formats=FORMATS) as image:
            yield from _frames(image, shaping)
            if shaping.frames == "all" and image.format == "GIF" and not _has_end(entry.content):
                yield Frame(0, None, "the end of the GIF is missing, and perhaps frames with it")
    except MemoryError:
        raise
    except UnidentifiedImageError:
        yield Frame(0, None, f"not an image in one of the formats {', '.join(FORMATS)}")
    except Exception as error:  # decoders meet damage with OSError, SyntaxError, struct.error, IndexError and others
        yield Frame(0, None, f"cannot be decoded: {error}")


def _frames(image: Image.Image, shaping: Shaping) -> Iterator[Frame]:
    # Further pictures in a JPEG (MPO) are previews and gain maps of the first one.
    several = image.format != "MPO" and getattr(image, "is_animated", False)
    if not several or shaping.frames == "first":
        outcome = _refusal(image) or _pixels(image, shaping)
        if isinstance(outcome, str):
            yield Frame(0, None, outcome)
        else:
            yield Frame(0, outcome, unused=_further(image) if several else 0)
        return
    n_frames, n_pixels = image.n_frames, 0  # type: ignore[attr-defined]
    for number in range(1, n_frames + 1):
        try:
            image.seek(number - 1)
        except MemoryError:
            raise
        except Exception as error:
            yield Frame(number, None, f"this frame of {n_frames} and those behind it cannot be reached: {error}")
            return
        if number > 1 and _is_no_page(image):
            continue
        n_pixels += image.width * image.height
        if Image.MAX_IMAGE_PIXELS is not None and n_pixels > MAX_FRAME_PIXELS * Image.MAX_IMAGE_PIXELS:
            limit = MAX_FRAME_PIXELS * Image.MAX_IMAGE_PIXELS
            yield Frame(number, None, f"the file has more than {limit} pixels up to this frame of {n_frames}")
            return
        yield _frame(image, shaping, number)


def _frame(image: Image.Image, shaping: Shaping, number: int) -> Frame:
    try:
        outcome = _refusal(image) or _pixels(image, shaping)
    except MemoryError:
        raise
    except Exception as error:
        outcome = f"cannot be decoded: {error}"
    return Frame(number, None, outcome) if isinstance(outcome, str) else Frame(number, outcome)


def _further(image: Image.Image) -> int:
    """Number of frames after the first one; 1 if damage prevents counting."""
    try:
        n_frames: int = image.n_frames  # type: ignore[attr-defined]
        if image.format != "TIFF":
            return n_frames - 1
        n_pages = 0
        for number in range(1, n_frames):
            image.seek(number)
            n_pages += not _is_no_page(image)
    except MemoryError:
        raise
    except Exception:
        return 1
    return n_pages


def _has_end(content: bytes | Path) -> bool:
    """Whether a GIF ends with its trailer, padding aside: Pillow accepts a file that is cut between frames."""
    if isinstance(content, Path):
        with content.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            content = file.read()
    return content[-_TAIL_BYTES:].rstrip(b"\0").endswith(b";")


def _is_no_page(image: Image.Image) -> bool:
    """Whether the current frame of a TIFF is a smaller copy or a mask of another one."""
    tags = getattr(image, "tag_v2", None)
    return tags is not None and bool(tags.get(_SUBFILE_TYPE, 0) & _REDUCED_OR_MASK)


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
    # Looking for an orientation costs as much as decoding a small image, and a JPEG shows at once whether it has one.
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
