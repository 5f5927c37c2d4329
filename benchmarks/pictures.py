"""From archives of JPEGs to a store, compared with Pillow alone on the same cores."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.fits import temporary_folder
from benchmarks.images import photograph_patches
from benchmarks.machine import describe
from benchmarks.report import Report
from vmfa_dask.data_prep.cores import available_cores
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr

_IMAGES_PER_TASK = 500


def decode(files: Sequence[bytes]) -> int:
    """Decode images with Pillow and drop them.

    Parameters
    ----------
    files : sequence of bytes
        Encoded images.

    Returns
    -------
    int
        Bytes of all pixels.
    """
    from PIL import Image

    return sum(np.asarray(Image.open(io.BytesIO(file)).convert("RGB")).nbytes for file in files)


def _members(archives: Sequence[str]) -> list[bytes]:
    contents = []
    for path in archives:
        with tarfile.open(path) as archive:
            contents += [archive.extractfile(member).read() for member in archive if member.isfile()]  # type: ignore[union-attr]
    return contents


def _photographs(folder: Path, n: int) -> list[str]:
    """Write patches of photographs as JPEGs to archives."""
    from PIL import Image

    patches, archives = photograph_patches(n, 32), []
    for part, numbers in enumerate(np.array_split(np.arange(n), 5)):
        archives.append(str(folder / f"part-{part}.tar"))
        with tarfile.open(archives[-1], "w") as archive:
            for k in numbers.tolist():
                stream = io.BytesIO()
                Image.fromarray(patches[k]).save(stream, "JPEG", quality=95)
                header = tarfile.TarInfo(f"{k:06d}.jpg")
                header.size = stream.tell()
                archive.addfile(header, io.BytesIO(stream.getvalue()))
    return archives


def run(report: Report, source: str | None, quick: bool) -> None:
    """Compare the rates of `images_to_zarr` and of Pillow alone, in images per second.

    Parameters
    ----------
    report : Report
        Collects the checks.
    source : str or None
        Folder whose ``train-*.tar`` are read; None for patches of photographs.
    quick : bool
        Tiny sizes.
    """
    with temporary_folder() as folder:
        archives = sorted(map(str, Path(source).glob("train-*.tar"))) if source else []
        archives = 2 * (archives or _photographs(Path(folder), 2_000 if quick else 50_000))
        files = _members(archives)
        cores = available_cores()
        print(f"{len(files)} JPEGs in {len(archives)} archives, {cores} cores, on {describe()}")
        tasks = [files[k : k + _IMAGES_PER_TASK] for k in range(0, len(files), _IMAGES_PER_TASK)]
        with ProcessPoolExecutor(cores) as pool:
            list(pool.map(decode, [files[:10]] * cores))  # starts processes and loads decoders
            begin = time.perf_counter()
            list(pool.map(decode, tasks))
            alone = len(files) / (time.perf_counter() - begin)
        images_to_zarr(archives[:1], Path(folder) / "first.zarr")  # loads Zarr and starts its threads
        begin = time.perf_counter()
        written = images_to_zarr(archives, Path(folder) / "images.zarr").written
        rate = written / (time.perf_counter() - begin)
    print(f"  Pillow alone, {cores} processes: {alone:.0f} images/s; images_to_zarr: {rate:.0f}")
    report.check("images_to_zarr over the rate of Pillow alone", rate / alone, low=0.8)
