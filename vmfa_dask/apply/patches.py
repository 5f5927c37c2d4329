"""Overlapping patches of images as rows, and images from estimates of their patches.

Neither all patches nor all estimates are ever in memory: they take D times as much as the image. May import: em, run,
numpy.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from vmfa_dask.em.rows import Rows, read_only
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.tables import row_dtype
from vmfa_dask.values import FloatArray

Merge = Literal["median", "mean"]


class PatchRows:
    """All patches of some images as rows, image by image, line by line; a `RowSource`.

    Parameters
    ----------
    images : (M, H, W, channels) array
        Integers or floats.
    patch : (int, int)
        Height and width of a patch, at most those of the images.
    centred : bool
        Whether rows are patches minus the mean of each channel, in float32: what patches of different brightness have
        in common is learned once. `levels` has the means.

    Raises
    ------
    ValueError
        If an image is smaller than a patch.
    """

    def __init__(self, images: NDArray[Any], patch: tuple[int, int], centred: bool = False) -> None:
        n_images, height, width, channels = self.image_shape = images.shape
        if height < patch[0] or width < patch[1]:
            raise ValueError(
                f"image: its size {height} x {width} is smaller than patch={patch}; pass a smaller patch"
            )
        self._windows = sliding_window_view(images, patch, axis=(1, 2)).transpose(0, 1, 2, 4, 5, 3)
        self.lines, self.line_rows = height - patch[0] + 1, width - patch[1] + 1
        self.n_rows = n_images * self.lines * self.line_rows
        self.feature_shape = (*patch, channels) if channels > 1 else patch
        self.centred, self.dtype = centred, np.dtype(np.float32) if centred else row_dtype(images.dtype)
        # Blocks of whole lines share most of their pixels.
        self.chunk_rows, self.decoded_rows, self.reads_parts, self.bytes_read = self.line_rows, 1, True, 0

    def read(self, start: int, stop: int) -> Rows:
        """A range of patches, copied out of the images; see `RowSource.read`."""
        block = self._patches(start, stop)
        if self.centred:
            block -= _levels(block)
        return read_only(block.reshape(stop - start, -1))

    def levels(self, start: int, stop: int) -> FloatArray:
        """What `read` has subtracted from centred patches.

        Parameters
        ----------
        start, stop : int
            The range.

        Returns
        -------
        (stop − start, D) float32 array
            The mean of each channel, for each pixel.
        """
        block = self._patches(start, stop)
        return np.broadcast_to(_levels(block), block.shape).reshape(stop - start, -1)

    def _patches(self, start: int, stop: int) -> NDArray[Any]:
        """Patches in their shape, (n, ph, pw, channels)."""
        block = np.empty((stop - start, *self._windows.shape[3:]), self.dtype)
        n = start
        while n < stop:
            line, first = divmod(n, self.line_rows)
            count = min(self.line_rows - first, stop - n)
            image, y = divmod(line, self.lines)
            block[n - start : n - start + count] = self._windows[image, y, first : first + count]
            n += count
        return block

    def forget_blocks(self) -> None:
        """Nothing: none are kept."""

    @property
    def remedy(self) -> str:
        """What helps where a pixel is NaN or infinite."""
        return "replace or crop such pixels"

    def describe(self, row: int) -> str:
        """The patch by its image and the position of its first pixel; see `RowSource.describe`."""
        line, x = divmod(row, self.line_rows)
        image, y = divmod(line, self.lines)
        return f"image {image}: patch at [{y}, {x}]"


def _levels(patches: NDArray[Any]) -> NDArray[Any]:
    """Mean of each channel of each patch, (n, 1, 1, channels)."""
    levels: NDArray[Any] = patches.mean(axis=(1, 2), keepdims=True)
    return levels


class PatchMerger:
    """An image from the estimates of its overlapping patches, which come line by line.

    Parameters
    ----------
    image : (H, W, channels) float32 array
        Written, as far as its pixels are complete.
    patch : (int, int)
        Height and width of a patch.
    merge : {"median", "mean"}
        How the estimates of a pixel become one (paper, appendix:denoising_with_gmms: the median).
    most_lines : int
        Lines of patches that `add` takes at once, at most.
    cores : Cores
        Threads that compute.
    """

    def __init__(
        self, image: FloatArray, patch: tuple[int, int], merge: Merge, most_lines: int, cores: Cores
    ) -> None:
        (height, width, channels), (ph, pw) = image.shape, patch
        self._image, self._patch, self._merge, self._cores = image, patch, merge, cores
        self._n_lines, self._line_rows = height - ph + 1, width - pw + 1
        # Lines ph − 1 before the first new one and after the last one, and pw − 1 patches at both ends of a line, hold
        # NaN where there is no patch: so every pixel has ph·pw estimates.
        self._held = np.full(
            (most_lines + 2 * (ph - 1), self._line_rows + 2 * (pw - 1), ph, pw, channels), np.nan, np.float32
        )
        self._added = 0

    def add(self, estimates: FloatArray) -> None:
        """Take the next lines of patches and merge the pixels that are complete with them.

        Parameters
        ----------
        estimates : (lines, patches per line, D) array
            Estimates of the patches.
        """
        ph, pw = self._patch
        n, last = len(estimates), self._added + len(estimates) == self._n_lines
        held, above = self._held, ph - 1
        columns = slice(pw - 1, pw - 1 + self._line_rows)
        held[above : above + n, columns] = estimates.reshape(n, self._line_rows, *held.shape[2:])
        ready = n
        if last:  # pixels below the last line of patches have estimates of the lines above alone
            held[above + n : above + n + ph - 1] = np.nan
            ready = n + ph - 1
        self._cores.run(lambda a, b: self._merge_lines(a, b), self._cores.split(ready))
        held[:above] = held[n : n + above].copy()
        self._added += n

    def _merge_lines(self, start: int, stop: int) -> None:
        """Merge pixel lines ``start:stop``, counted from the first new line of patches."""
        ph, pw, channels = self._held.shape[2:]
        held, width = self._held, self._image.shape[1]
        line, column, dy, dx, channel = held.strides
        # Pixel (y, x) is pixel (dy, dx) of the patch at (y − dy, x − dx).
        for y in range(start, stop):
            strides = (column, channel, dy - line, dx - column)
            of_line = as_strided(held[y + ph - 1, pw - 1 :], (width, channels, ph, pw), strides, writeable=False)
            estimates = np.array(of_line, order="C").reshape(width, channels, ph * pw)
            self._image[self._added + y] = _merged(estimates, self._merge)


def _merged(estimates: FloatArray, merge: Merge) -> FloatArray:
    """Median or mean over the last axis, without NaN; `estimates` is overwritten."""
    counts = np.count_nonzero(~np.isnan(estimates), axis=-1)
    if merge == "mean":
        merged: FloatArray = np.nansum(estimates, axis=-1) / counts.astype(np.float32)
        return merged
    estimates.sort(axis=-1)  # NaN last
    middle = [np.take_along_axis(estimates, k[..., None], axis=-1)[..., 0] for k in ((counts - 1) // 2, counts // 2)]
    merged = (middle[0] + middle[1]) * np.float32(0.5)
    return merged
