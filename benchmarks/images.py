"""Images for the fits: CIFAR-10 if the user has it, else patches of the photographs in scikit-image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import zarr

from benchmarks.fits import Images
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr

_PHOTOGRAPHS = ("astronaut.png", "coffee.png", "chelsea.png", "rocket.jpg", "motorcycle_left.png")


def prepare(folder: str, source: str | None, n_patches: int = 50_000) -> Images:
    """Write training and test images to Zarr stores.

    Parameters
    ----------
    folder : str
        The stores are created here.
    source : str or None
        Folder with ``train-*.tar`` and ``test-*.tar`` of 32 x 32 colour images; None for patches.
    n_patches : int
        Number of training patches; there are a fifth as many test patches.

    Returns
    -------
    Images
        Their paths.

    Raises
    ------
    FileNotFoundError
        If `source` does not hold such archives.
    """
    train, test = str(Path(folder) / "train.zarr"), str(Path(folder) / "test.zarr")
    if source is not None:
        for target, pattern in ((train, "train-*.tar"), (test, "test-*.tar")):
            archives = sorted(Path(source).glob(pattern))
            if not archives:
                raise FileNotFoundError(f"there is no {pattern} in {source}")
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
    """Cut patches at random from the photographs in scikit-image, with a fixed seed.

    Parameters
    ----------
    n : int
        Number of patches.
    size : int
        Height and width in pixels.

    Returns
    -------
    (n, size, size, 3) uint8 array
        Taken from each photograph in turn.

    Raises
    ------
    FileNotFoundError
        If this scikit-image comes without the photographs.
    """
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
