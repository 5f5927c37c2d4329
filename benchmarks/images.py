"""Images for the fits: CIFAR-10 where the user has it, else patches of the photographs inside scikit-image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import zarr

from benchmarks.fits import Images
from data_prep.images_to_zarr import images_to_zarr

_PHOTOGRAPHS = ("astronaut.png", "coffee.png", "chelsea.png", "rocket.jpg", "motorcycle_left.png")


def prepare(folder: str, source: str | None, n_patches: int = 50_000) -> Images:
    """Stores of training and test images in `folder`.

    Parameters
    ----------
    source : folder with ``train-*.tar`` and ``test-*.tar`` of 32x32 colour images, or None for patches
    """
    train, test = str(Path(folder) / "train.zarr"), str(Path(folder) / "test.zarr")
    if source is not None:
        for target, pattern in ((train, "train-*.tar"), (test, "test-*.tar")):
            archives = sorted(Path(source).glob(pattern))
            if not archives:
                raise FileNotFoundError(f"{source}: no {pattern} there")
            images_to_zarr([str(path) for path in archives], target)
        return Images(train, test, is_cifar=True)
    patches = photograph_patches(n_patches + n_patches // 5)
    for target, part in ((train, patches[:n_patches]), (test, patches[n_patches:])):
        stored = zarr.create_array(
            target, shape=part.shape, dtype=part.dtype, chunks=(1365, *part.shape[1:]), compressors=None
        )
        stored[...] = part
    return Images(train, test, is_cifar=False)


def photograph_patches(n: int, size: int = 32) -> np.ndarray:
    """`n` patches (n, size, size, 3) uint8 at seeded random places of the photographs that scikit-image ships."""
    import skimage
    from PIL import Image

    folder = Path(skimage.__file__).parent / "data"
    pictures = [
        np.asarray(Image.open(folder / name).convert("RGB")) for name in _PHOTOGRAPHS if (folder / name).exists()
    ]
    if not pictures:
        raise FileNotFoundError(f"scikit-image ships none of {_PHOTOGRAPHS}")
    rng = np.random.default_rng(0)
    patches = np.empty((n, size, size, 3), np.uint8)
    for k in range(n):
        picture = pictures[k % len(pictures)]
        y, x = (rng.integers(0, extent - size) for extent in picture.shape[:2])
        patches[k] = picture[y : y + size, x : x + size]
    return patches
