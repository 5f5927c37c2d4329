"""`denoise`: images of every form come back in it, with less noise; what cannot be denoised is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from vmfa_dask import IterationRecord, denoise

SMALL: dict[str, Any] = {"n_components": 20, "n_factors": 2, "patch": (6, 6)}


def picture(size: int = 48) -> NDArray[np.float64]:
    """Stripes, an edge and a slope, 0...255."""
    y, x = np.mgrid[:size, :size]
    return np.where(x > y, 128 + 90 * np.sin(x / 4), 60 + 2.0 * y)


def with_noise(clean: NDArray[np.float64], sigma: float = 20) -> NDArray[np.float32]:
    return (clean + np.random.default_rng(0).normal(0, sigma, clean.shape)).astype(np.float32)


def psnr(clean: NDArray[Any], image: NDArray[Any]) -> float:
    return float(10 * np.log10(255**2 / np.mean(np.square(image.astype(np.float64) - clean))))


def test_auto_knows_the_noise() -> None:
    clean = picture()
    noisy = with_noise(clean)
    sizes = {"n_components": 20, "n_factors": 2}
    assert psnr(clean, denoise(noisy, quality="auto", **sizes)) > psnr(clean, noisy) + 6
    speckled = (clean * np.random.default_rng(1).normal(1, 0.2, clean.shape)).astype(np.float32)
    # Noise that is stronger where the picture is brighter has no single level: as the paper does it.
    np.testing.assert_array_equal(denoise(speckled, quality="auto", **sizes), denoise(speckled, **sizes))


@pytest.mark.parametrize("merge", ["median", "mean"])
def test_noise_is_removed(merge: str) -> None:
    clean = picture()
    noisy = with_noise(clean)
    records: list[IterationRecord] = []
    denoised = denoise(noisy, merge=merge, progress=records.append, **SMALL)
    assert denoised.shape == noisy.shape
    assert denoised.dtype == np.float32
    assert psnr(clean, denoised) > psnr(clean, noisy) + 6
    assert records[-1].phase == "final"


def test_the_result_does_not_depend_on_threads_or_units() -> None:
    noisy = with_noise(picture())
    denoised = denoise(noisy, **SMALL)
    np.testing.assert_array_equal(denoise(noisy, threads=1, **SMALL), denoised)
    np.testing.assert_allclose(denoise(noisy / 256 - 3, **SMALL) * 256 + 768, denoised, atol=0.05)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float64"])
def test_dtype_and_range_come_back(dtype: str) -> None:
    clean, factor = picture(), {"uint8": 1, "uint16": 200, "float64": 1 / 255}[dtype]
    noisy = np.clip(with_noise(clean), 0, 255) * factor
    denoised = denoise(noisy.astype(dtype), **SMALL)
    assert denoised.dtype == np.dtype(dtype)
    assert psnr(clean, denoised / factor) > psnr(clean, noisy / factor) + 6


def test_colour_and_stacks() -> None:
    clean = picture()
    colour = np.stack([clean, 255 - clean, 0.5 * clean], axis=-1)
    noisy = with_noise(colour)
    assert psnr(colour, denoise(noisy, **SMALL)) > psnr(colour, noisy) + 6
    images = np.stack([clean, clean[::-1]])
    noisy = with_noise(images)
    denoised = denoise(noisy, stack=True, **SMALL)
    assert denoised.shape == images.shape
    assert psnr(images, denoised) > psnr(images, noisy) + 6


def test_a_constant_image_comes_back() -> None:
    for image in (np.full((48, 48), 7, np.uint8), np.full((48, 48), 0.3)):
        np.testing.assert_array_equal(denoise(image), image)


@pytest.mark.parametrize(
    ("image", "keywords", "message"),
    [
        (np.zeros((5, 48)) + np.arange(48), {"patch": (6, 6)}, "its size 5 x 48 is smaller than patch"),
        (np.where(np.eye(48) * (np.arange(48) == 3), np.nan, 1.0), {}, r"image\[3, 3\] is nan, expected a finite"),
        (np.zeros(48), {}, r"found shape \(48,\), expected \(H, W\)"),
        (np.zeros((2, 48, 48, 3, 1)), {"stack": True}, r"expected \(M, H, W\) or"),
        (np.array([["a"]]), {}, "found dtype <U1"),
        (np.eye(48), {"merge": "mode"}, "merge='mode': expected one of"),
        (np.eye(48), {"quality": "best"}, "quality='best': expected one of"),
        (np.eye(48), {"patch": 12}, "patch=12: expected"),
        (np.eye(48), {"n_components": 2000}, "n_components=2000: the data has only 1369 rows"),
        (np.eye(48), {"n_components": 0}, "n_components=0: expected"),
        (np.eye(48), {"threads": 0}, "threads=0: expected"),
    ],
)
def test_what_is_refused(image: Any, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        denoise(image, **keywords)
