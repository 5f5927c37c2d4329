"""Patches as rows are those that one would cut out one by one, and merging is what its definition says."""

from __future__ import annotations

import numpy as np
import pytest

from vmfa_dask.apply.noise_level import noise_levels
from vmfa_dask.apply.patches import Merge, PatchMerger, PatchRows
from vmfa_dask.runtime.threads import Cores


@pytest.mark.parametrize(("channels", "dtype"), [(1, "uint8"), (3, "float32")])
def test_patch_rows_are_the_patches(channels: int, dtype: str) -> None:
    images = np.random.default_rng(0).uniform(0, 255, (2, 9, 7, channels)).astype(dtype)
    rows = PatchRows(images, (4, 3))
    expected = [image[y : y + 4, x : x + 3].reshape(-1) for image in images for y in range(6) for x in range(5)]
    assert rows.n_rows == len(expected)
    assert rows.feature_shape == ((4, 3) if channels == 1 else (4, 3, 3))
    for start, stop in ((0, 60), (3, 4), (7, 41), (28, 33)):
        np.testing.assert_array_equal(rows.read(start, stop), expected[start:stop])
    assert not rows.read(0, 2).flags.writeable
    assert rows.read(0, 2).dtype == rows.dtype
    assert rows.describe(30 + 5 * 2 + 4) == "image 1: patch at [2, 4]"


@pytest.mark.parametrize("merge", ["median", "mean"])
@pytest.mark.parametrize(
    ("shape", "patch", "lines"), [((9, 8, 1), (4, 3), 2), ((7, 7, 2), (3, 3), 5), ((5, 6, 1), (5, 1), 1)]
)
def test_merged_pixels(merge: Merge, shape: tuple[int, int, int], patch: tuple[int, int], lines: int) -> None:
    n_lines, line_rows = shape[0] - patch[0] + 1, shape[1] - patch[1] + 1
    estimates = np.random.default_rng(1).normal(size=(n_lines, line_rows, *patch, shape[2])).astype(np.float32)
    image = np.empty(shape, np.float32)
    merger = PatchMerger(image, patch, merge, lines, Cores(2))
    for first in range(0, n_lines, lines):
        merger.add(estimates[first : first + lines].reshape(-1, line_rows, patch[0] * patch[1] * shape[2]))
    for y, x, channel in np.ndindex(shape):
        of_pixel = [
            estimates[y - dy, x - dx, dy, dx, channel]
            for dy, dx in np.ndindex(patch)
            if 0 <= y - dy < n_lines and 0 <= x - dx < line_rows
        ]
        np.testing.assert_allclose(image[y, x, channel], getattr(np, merge)(of_pixel), rtol=1e-5, atol=1e-6)


def test_centred_patches() -> None:
    images = np.random.default_rng(0).uniform(0, 255, (1, 9, 7, 3)).astype(np.uint8)
    rows, plain = PatchRows(images, (4, 3), centred=True), PatchRows(images, (4, 3))
    np.testing.assert_allclose(rows.read(4, 11) + rows.levels(4, 11), plain.read(4, 11), rtol=1e-5)
    np.testing.assert_allclose(rows.read(4, 11).reshape(-1, 12, 3).mean(axis=1), 0, atol=1e-4)


def test_an_image_smaller_than_a_patch() -> None:
    with pytest.raises(ValueError, match=r"its size 5 x 20 is smaller than patch=\(6, 6\)"):
        PatchRows(np.zeros((1, 5, 20, 1), np.uint8), (6, 6))


@pytest.mark.parametrize("sigma", [0.5, 20.0])
def test_noise_level(sigma: float) -> None:
    y, x = np.mgrid[:80, :90]
    clean = 100 + 50 * np.sin(y / 9) + 40 * (x > 45)
    noisy = clean + np.random.default_rng(2).normal(0, sigma, clean.shape)
    levels = noise_levels(noisy[None, :, :, None])
    assert levels.typical == pytest.approx(sigma, rel=0.08)
    assert levels.variation < 1.15
    speckled = clean * np.random.default_rng(3).normal(1, sigma / 100, clean.shape)
    assert noise_levels(speckled[None, :, :, None]).variation > 1.3
