"""``vmfa-dask denoise``: an image in, an image without noise out. May import: command, service, Pillow."""

from __future__ import annotations

import os
from typing import Any

import click
import numpy as np

from vmfa_dask.command.fit_options import given
from vmfa_dask.command.keywords import keyword_options, parameter_docs
from vmfa_dask.command.options import EXISTING, NEW_PATH, command, option, with_options
from vmfa_dask.service.denoising import denoise as denoised
from vmfa_dask.service.endings import ending_by_signals

_DEFAULTS = {"quality": "paper", "merge": "median", "random_state": 0}
# Modes whose pixels are numbers; others are converted.
_MODES = ("L", "RGB", "I;16", "I", "F")


@command("denoise")
@click.argument("image", type=EXISTING)
@option("--output", type=NEW_PATH, metavar="IMAGE", required=True, help="The new image; its ending names the format.")
@option("--overwrite", is_flag=True, help="Replace a file that is at --output.")
@with_options(
    keyword_options(
        denoised, parameter_docs(denoised.__doc__), _DEFAULTS, left_out=("image", "stack", "progress", "verbose")
    )
)
def denoise(image: str, output: str, overwrite: bool, **keywords: Any) -> None:
    """Remove the noise of the file IMAGE, from the image alone.

    Needs the extra 'images'. Transparency is dropped.
    """
    if os.path.lexists(output) and not overwrite:
        raise click.UsageError(f"--output {output} exists; choose another path, or pass --overwrite")
    pillow = _pillow()
    if os.path.splitext(output)[1].lower() not in pillow.registered_extensions():
        raise click.UsageError(f"--output {output}: its ending names no image format; expected one such as .png")
    try:
        with pillow.open(image) as opened:
            noisy = opened if opened.mode in _MODES else opened.convert("L" if opened.mode in ("1", "LA") else "RGB")
            pixels = np.asarray(noisy)
    except pillow.UnidentifiedImageError as error:
        raise ValueError(f"{image}: expected an image, found a file of another kind") from error
    with ending_by_signals("the denoising", "(nothing was written)"):
        result = denoised(pixels, **given(keywords))
    pillow.fromarray(result).save(output)
    click.echo(f"{' x '.join(map(str, result.shape))} pixels written to {output}")


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("denoise needs Pillow: pip install 'vmfa-dask[images]'") from error
    return Image
