"""Images of any dtype and range as arrays to train on, and back. May import: numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Range of grey levels in which settings that have units, such as the smallest noise variance, are meant.
_LEVELS = 255.0


@dataclass(frozen=True)
class ImageScale:
    """How an image became an array to train on.

    Parameters
    ----------
    shape : tuple of int
        Shape of the image.
    dtype : dtype
        Its dtype.
    low, unit : float
        Values of the array are (image − low) / unit.
    is_constant : bool
        Whether all values of the image are equal.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: float
    unit: float
    is_constant: bool

    def restored(self, images: NDArray[Any]) -> NDArray[Any]:
        """Bring estimates back to dtype, shape and range of the image.

        Parameters
        ----------
        images : (M, H, W, channels) array
            In the units of the array.

        Returns
        -------
        array
            Integers are rounded, half to even, and clipped to the range of their dtype.
        """
        values = images.reshape(self.shape).astype(np.float64) * self.unit + self.low
        if self.dtype.kind in "iu":
            limits = np.iinfo(self.dtype)
            values = np.clip(np.rint(values), limits.min, limits.max)
        return values.astype(self.dtype)


def as_images(image: Any, stack: bool) -> tuple[NDArray[Any], ImageScale]:
    """Images in the form and units in which they are trained on.

    Parameters
    ----------
    image : array_like of shape (H, W), (H, W, channels), or with ``stack=True`` (M, H, W) or (M, H, W, channels)
        Integers or floats.
    stack : bool
        Whether the first axis counts images.

    Returns
    -------
    (M, H, W, channels) array
        8-bit images as they are; others as float32, their range moved to 0...255.
    ImageScale
        The way back.

    Raises
    ------
    ValueError
        For other numbers of axes, dtypes without numbers, empty images, NaN and infinity.
    """
    array = np.asarray(image)
    axes = array.shape[1:] if stack and array.ndim else array.shape
    if len(axes) not in (2, 3) or 0 in array.shape:
        forms = "(M, H, W) or (M, H, W, channels) with stack=True" if stack else "(H, W) or (H, W, channels)"
        raise ValueError(f"image: found shape {array.shape}, expected {forms}, without empty axes")
    if array.dtype.kind not in "iuf":
        raise ValueError(f"image: found dtype {array.dtype}, expected integers or floats")
    images = array.reshape((-1 if stack else 1, *axes[:2], axes[2] if len(axes) == 3 else 1))
    low, high = array.min(), array.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        index = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        raise ValueError(f"image{list(index)} is {array[index]}, expected a finite number: replace or crop such pixels")
    if array.dtype == np.uint8:
        return images, ImageScale(array.shape, array.dtype, 0.0, 1.0, bool(low == high))
    low, unit = float(low), (float(high) - float(low)) / _LEVELS or 1.0
    scaled = ((images.astype(np.float64) - low) / unit).astype(np.float32)
    return scaled, ImageScale(array.shape, array.dtype, low, unit, bool(low == float(high)))
