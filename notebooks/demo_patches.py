"""The rows of the demo: patches of photographs, split into training and held-out ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import zarr
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]

# Photographs in the scikit-image wheel, all CC0 or public domain. The right picture of the motorcycle is left out: it
# shows the scene of the left one, so a strip held out in one would be trained on in the other.
PHOTOGRAPHS = (
    "astronaut.png",
    "brick.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "grass.png",
    "gravel.png",
    "moon.png",
    "motorcycle_left.png",
    "rocket.jpg",
)
PATCH, STRIDE = 12, 2
CHUNK_ROWS = 4096
SEED = 0


def load_photographs() -> dict[str, Pixels]:
    """Read the photographs in the data folder of the installed scikit-image.

    Returns
    -------
    dict of str to (height, width) uint8 array
        Grey pictures by name.

    Raises
    ------
    SystemExit
        If scikit-image or its photographs are missing.
    """
    spec = importlib.util.find_spec("skimage")
    if spec is None or spec.origin is None:
        raise SystemExit("scikit-image is not installed: pip install -e '.[demo]'")
    folder = Path(spec.origin).parent / "data"
    found = [folder / name for name in PHOTOGRAPHS if (folder / name).is_file()]
    if not found:
        raise SystemExit(
            f"none of the photographs {', '.join(PHOTOGRAPHS)} is in {folder}: "
            "this scikit-image comes without them; the demo downloads nothing"
        )
    return {path.stem: np.asarray(Image.open(path).convert("L")) for path in found}


def patches_of(picture: Pixels) -> Pixels:
    """Cut a picture into overlapping patches.

    Parameters
    ----------
    picture : (height, width) uint8 array
        A grey picture.

    Returns
    -------
    (n, 12, 12) uint8 array
        One patch every two pixels in both directions.
    """
    windows = np.lib.stride_tricks.sliding_window_view(picture, (PATCH, PATCH))
    return windows[::STRIDE, ::STRIDE].reshape(-1, PATCH, PATCH)


def split_photographs(photographs: dict[str, Pixels]) -> tuple[Pixels, Pixels]:
    """Cut patches for training and held-out ones.

    A strip across each photograph, an eighth of it, is held out: overlapping patches drawn at random would share nearly
    all of their pixels with training patches.

    Parameters
    ----------
    photographs : dict of str to (height, width) uint8 array
        Grey pictures by name.

    Returns
    -------
    train, held_out : (n, 12, 12) uint8 array
        The patches.
    """
    train, held_out = [], []
    for picture in photographs.values():
        top = len(picture) * 5 // 8
        bottom = top + len(picture) // 8
        train += [patches_of(picture[:top]), patches_of(picture[bottom:])]
        held_out.append(patches_of(picture[top:bottom]))
    return np.concatenate(train), np.concatenate(held_out)


def write_rows(patches: Pixels, n_rows: int, path: Path) -> int:
    """Write patches to a Zarr store in random order, so that every chunk holds rows of all photographs.

    Parameters
    ----------
    patches : (n, 12, 12) uint8 array
        Training patches.
    n_rows : int
        How many are drawn.
    path : path
        The new store.

    Returns
    -------
    int
        Number of rows written.
    """
    order = np.random.default_rng(SEED).permutation(len(patches))[:n_rows]
    store = zarr.create_array(
        path,
        shape=(len(order), PATCH, PATCH),
        chunks=(CHUNK_ROWS, PATCH, PATCH),
        dtype=np.uint8,
        dimension_names=("patch", "height", "width"),
        overwrite=True,
    )
    for start in range(0, len(order), CHUNK_ROWS):
        store[start : start + CHUNK_ROWS] = patches[order[start : start + CHUNK_ROWS]]
    return len(order)
