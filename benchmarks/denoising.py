"""The paper's table of denoised images (tab:denoising_results): ``python -m benchmarks.denoising FOLDER``.

FOLDER holds the images in ``set12/*.png`` and ``bsd68/*.png``, and pairs of equal names in ``confocal/noisy`` and
``confocal/clean``. Results are kept in ``images.csv``, and images that it names are not denoised again. With ``--bm3d``
BM3D, which is told sigma, runs on the same cores: ``pip install bm3d``, which no extra contains, as its licence allows
non-commercial use only.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import describe
from vmfa_dask import denoise

SETS = ("set12", "bsd68", "confocal")
# v-MFA in the paper: PSNR in dB and SSIM.
PAPER = {
    ("set12", 25): (29.15, 0.825),
    ("set12", 50): (26.12, 0.703),
    ("bsd68", 25): (27.22, 0.754),
    ("bsd68", 50): (25.30, 0.651),
    ("confocal", 0): (36.83, 0.934),
}
# The quality under which results of BM3D are kept.
BM3D_HERE = "bm3d"
# BM3D in the paper, which is given sigma.
BM3D = {("set12", 25): 29.99, ("set12", 50): 26.75, ("bsd68", 25): 28.61, ("bsd68", 50): 25.67}
# Images of which pictures are made.
_SHOWN = {("set12", "07"), ("set12", "09"), ("bsd68", "test011"), ("confocal", "fish"), ("confocal", "BPAE_G")}


@dataclass(frozen=True)
class Result:
    """A denoised image.

    Parameters
    ----------
    quality : str
        As in `vmfa_dask.denoise`, or "bm3d".
    data_set : str
        One of `SETS`.
    sigma : int
        Standard deviation of the added noise, in grey levels; 0 where the image is noisy as it is.
    image : str
        Name of the file without its ending.
    noisy_psnr, psnr : float
        dB, of the noisy and of the denoised image.
    ssim : float
        Structural similarity of the denoised image.
    seconds : float
        For the whole call.
    load : float
        Mean number of running processes in the last minute, when the image was done.
    """

    quality: str
    data_set: str
    sigma: int
    image: str
    noisy_psnr: float
    psnr: float
    ssim: float
    seconds: float
    load: float

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What was denoised, and how."""
        return self.quality, self.data_set, self.sigma, self.image


def read_image(path: Path) -> NDArray[np.uint8]:
    """Read a grey image.

    Parameters
    ----------
    path : Path
        A file that Pillow can read.

    Returns
    -------
    (H, W) uint8 array
    """
    from PIL import Image

    return np.asarray(Image.open(path).convert("L"))


def pairs(
    folder: Path, data_set: str, sigmas: list[int], first: int | None
) -> Iterator[tuple[str, int, NDArray[np.uint8], NDArray[np.number]]]:
    """Clean and noisy images of a data set.

    Parameters
    ----------
    folder : Path
        Of all data sets.
    data_set : str
        One of `SETS`.
    sigmas : list of int
        Standard deviations of the noise to be added.
    first : int, optional
        How many images at most.

    Yields
    ------
    str
        Name of the image.
    int
        Standard deviation, 0 for images that are noisy as they are.
    (H, W) uint8 array
        Clean image.
    (H, W) array
        Noisy image: float32 with Gaussian noise of a seed of its own, neither clipped nor rounded, or uint8.
    """
    if data_set == "confocal":
        for path in sorted((folder / data_set / "noisy").iterdir())[:first]:
            yield path.stem, 0, read_image(folder / data_set / "clean" / path.name), read_image(path)
        return
    for sigma in sigmas:
        for number, path in enumerate(sorted((folder / data_set).glob("*.png"))[:first]):
            clean = read_image(path)
            noise = np.random.default_rng([sigma, number]).normal(0, sigma, clean.shape)
            yield path.stem, sigma, clean, (clean + noise).astype(np.float32)


def psnr(clean: NDArray[np.uint8], image: NDArray[np.number]) -> float:
    """Peak signal-to-noise ratio.

    Parameters
    ----------
    clean, image : (H, W) array
        Grey levels; the image is clipped to 0...255.

    Returns
    -------
    float
        dB, with a peak of 255.
    """
    errors = np.clip(image, 0, 255).astype(np.float64) - clean
    return float(10 * np.log10(255**2 / np.mean(errors**2)))


def evaluate(
    data_set: str, name: str, sigma: int, clean: NDArray[np.uint8], noisy: NDArray[np.number], quality: str
) -> tuple[Result, NDArray[np.number]]:
    """Denoise an image and compare it with the clean one.

    Parameters
    ----------
    data_set, name, sigma
        As in `Result`.
    clean, noisy : (H, W) array
        The images.
    quality : str
        As in `vmfa_dask.denoise`, or "bm3d" where `sigma` is known.

    Returns
    -------
    Result
    (H, W) array
        The denoised image.
    """
    from skimage.metrics import structural_similarity

    begin = time.perf_counter()
    denoised = by_bm3d(noisy, sigma) if quality == BM3D_HERE else denoise(noisy, quality=quality)
    seconds = time.perf_counter() - begin
    compared = np.clip(denoised, 0, 255).astype(np.float64)
    similarity = structural_similarity(clean.astype(np.float64), compared, data_range=255)
    numbers = (psnr(clean, noisy), psnr(clean, denoised), float(similarity), seconds, os.getloadavg()[0])
    return Result(quality, data_set, sigma, name, *(round(number, 4) for number in numbers)), denoised


def by_bm3d(noisy: NDArray[np.number], sigma: int) -> NDArray[np.float64]:
    """Denoise an image by BM3D.

    Parameters
    ----------
    noisy : (H, W) array
        Grey levels.
    sigma : int
        Standard deviation of its noise.

    Returns
    -------
    (H, W) float64 array
        Grey levels.

    Raises
    ------
    ModuleNotFoundError
        Where the package ``bm3d`` is not installed.
    """
    from bm3d import bm3d

    denoised: NDArray[np.float64] = 255 * bm3d(noisy.astype(np.float64) / 255, sigma / 255)  # its scale is 0...1
    return denoised


def save_picture(path: Path, *images: NDArray[np.number]) -> None:
    """Save images side by side.

    Parameters
    ----------
    path : Path
        Of the PNG file.
    *images : (H, W) array
        Of equal height; clipped to 0...255.
    """
    from PIL import Image

    row = np.concatenate([np.rint(np.clip(image, 0, 255)).astype(np.uint8) for image in images], axis=1)
    Image.fromarray(row).save(path, optimize=True)


def read_results(path: Path) -> dict[tuple[str, str, int, str], Result]:
    """Read results that were kept.

    Parameters
    ----------
    path : Path
        The CSV file.

    Returns
    -------
    dict
        Results by their keys; empty without a file.
    """
    if not path.exists():
        return {}
    numbers = {field.name: {"int": int, "float": float}.get(str(field.type), str) for field in fields(Result)}
    with path.open(newline="") as file:
        results = [Result(**{name: numbers[name](text) for name, text in row.items()}) for row in csv.DictReader(file)]
    return {result.key: result for result in results}


def write_results(path: Path, results: dict[tuple[str, str, int, str], Result]) -> None:
    """Write all results to a CSV file.

    Parameters
    ----------
    path : Path
        The CSV file.
    results : dict
        Results by their keys.
    """
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Result)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(results[key]) for key in sorted(results))


def table(results: dict[tuple[str, str, int, str], Result]) -> str:
    """Means over the images of each data set, beside those of v-MFA and BM3D over all images in the paper.

    Parameters
    ----------
    results : dict
        Results by their keys.

    Returns
    -------
    str
        Markdown.
    """
    lines = [
        "| data set | σ | quality | images | PSNR noisy | PSNR | over \"paper\" on them | all images: v-MFA | BM3D "
        "| SSIM | v-MFA | seconds | load |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for data_set, sigma in PAPER:
        for quality in sorted({key[0] for key in results}, reverse=True):
            found = [result for key, result in results.items() if key[:3] == (quality, data_set, sigma)]
            if not found:
                continue
            paper_psnr, paper_ssim = PAPER[data_set, sigma]
            bm3d = f"{BM3D[data_set, sigma]:.2f}" if (data_set, sigma) in BM3D else "–"
            gains = [r.psnr - results[other].psnr for r in found if (other := ("paper", *r.key[1:])) in results]
            gain = f"{mean(gains):+.2f}" if gains and quality != "paper" else ""
            spread = f" ± {stdev(r.psnr for r in found):.2f}" if len(found) > 1 else ""
            lines.append(
                f"| {data_set} | {sigma or '–'} | {quality} | {len(found)} | {mean(r.noisy_psnr for r in found):.2f} "
                f"| {mean(r.psnr for r in found):.2f}{spread} | {gain} | {paper_psnr:.2f} | {bm3d} "
                f"| {mean(r.ssim for r in found):.3f} | {paper_ssim:.3f} "
                f"| {mean(r.seconds for r in found):.1f} | {mean(r.load for r in found):.1f} |"
            )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Denoise images and write tables and pictures.

    Parameters
    ----------
    arguments : list of str, optional
        Of the command line; by default those of this process.

    Returns
    -------
    int
        The exit code, 0.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.denoising", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder with set12, bsd68 and confocal")
    parser.add_argument("--output", type=Path, default=Path("denoising-output"), help="folder for tables and pictures")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--sigmas", nargs="+", type=int, default=[25, 50])
    parser.add_argument("--quality", nargs="*", choices=("paper", "auto"), default=("paper", "auto"))
    parser.add_argument("--bm3d", action="store_true", help="denoise images of known sigma by BM3D as well")
    parser.add_argument("--first", type=int, help="images of each data set, at most")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    results = read_results(options.output / "images.csv")
    denoise(np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32), n_components=4)  # compiles
    for data_set in options.sets:
        for name, sigma, clean, noisy in pairs(options.folder, data_set, options.sigmas, options.first):
            for quality in (*options.quality, *([BM3D_HERE] if options.bm3d and sigma else [])):
                if (quality, data_set, sigma, name) in results:
                    continue
                result, denoised = evaluate(data_set, name, sigma, clean, noisy, quality)
                print(f"{result} gain {result.psnr - result.noisy_psnr:.2f}", flush=True)
                results[result.key] = result
                write_results(options.output / "images.csv", results)
                if (data_set, name) in _SHOWN:
                    label = f"{data_set}-{name}" + (f"-{sigma}" if sigma else "")
                    save_picture(options.output / f"{label}-{quality}.png", clean, noisy, denoised)
    (options.output / "table.md").write_text(f"# Denoising\n\n{describe()}\n\n{table(results)}\n")
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
