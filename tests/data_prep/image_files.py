"""Small image files, folders and archives to test with."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import zarr
from PIL import Image


def noise(seed: int, height: int = 6, width: int = 8, channels: int = 3) -> npt.NDArray[np.uint8]:
    """Return random pixels, shape (height, width, channels) uint8."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def encoded(pixels: npt.NDArray[np.generic], image_format: str = "PNG") -> bytes:
    """Return an image file."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, image_format)
    return stream.getvalue()


def write_folder(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files, by their path relative to a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def write_zip(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write a zip archive; a name that ends with a slash is a folder."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def write_tar(path: Path, members: Mapping[str, bytes | tarfile.TarInfo], mode: Literal["w", "w:gz"] = "w") -> Path:
    """Write an archive of files and, where a header is given, of members without content."""
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            if isinstance(content, bytes):
                header = tarfile.TarInfo(name)
                header.size = len(content)
                archive.addfile(header, io.BytesIO(content))
            else:
                archive.addfile(content)
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    """Return the header of a link."""
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, target
    return header


def rows(store: Path) -> npt.NDArray[np.uint8]:
    """Return all rows of a store."""
    return np.asarray(zarr.open_array(store, mode="r")[:])


def files_below(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder by its relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
