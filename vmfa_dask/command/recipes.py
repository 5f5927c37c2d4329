"""``vmfa-dask prepare NAME``: the data sets of the paper. May import: command, data_prep, click."""

from __future__ import annotations

import importlib
from typing import Any

import click

from vmfa_dask.command.options import command, option
from vmfa_dask.command.prepare import preparation, workers_option, writing
from vmfa_dask.data_prep.recipes.paper import DATA_SETS

_PARTIAL = option("--partial", is_flag=True, help="Accept fewer images than the paper has.")
_MAX_UNPACKED = option(
    "--max-unpacked", type=click.INT, metavar="BYTES", help="Largest size that an archive may unpack to."
)
_WORKERS = workers_option("threads")


def _write(name: str, options: dict[str, Any]) -> None:
    with writing(options) as client:
        recipe = importlib.import_module(f"vmfa_dask.data_prep.recipes.{name}")
        rows = recipe.prepare(**options, client=client)
    expected = DATA_SETS[name]
    for side, n_expected in (("train", expected.train), ("test", expected.test)):
        click.echo(f"{side}: {rows[side]:,} images, {n_expected:,} in the paper")


@command("cifar10")
@preparation
@_MAX_UNPACKED
@_PARTIAL
@_WORKERS
def cifar10(**options: Any) -> None:
    """CIFAR-10 from data_batch_*.bin and test_batch.bin, or from train-*.tar and test-*.tar."""
    _write("cifar10", options)


@command("celeba")
@preparation
@option(
    "--crop", nargs=4, type=click.INT, default=(25, 50, 128, 128), show_default=True, metavar="LEFT TOP WIDTH HEIGHT",
    help="Rectangle that is kept, in pixels.",
)  # fmt: skip
@_MAX_UNPACKED
@_PARTIAL
@_WORKERS
def celeba(**options: Any) -> None:
    """CelebA from list_eval_partition.txt and img_align_celeba or img_align_celeba.zip."""
    _write("celeba", options)


@command("emnist")
@preparation
@option("--noise", type=click.FLOAT, default=1.0, show_default=True, help="Standard deviation in grey levels.")
@option("--seed", type=click.INT, default=0, show_default=True, help="Seed of the noise.")
@_PARTIAL
@_WORKERS
def emnist(**options: Any) -> None:
    """EMNIST from the four idx files of the split byclass."""
    _write("emnist", options)


@command("svhn")
@preparation
@_PARTIAL
@_WORKERS
def svhn(**options: Any) -> None:
    """SVHN from train_32x32.mat, extra_32x32.mat and test_32x32.mat. Needs the extra 'recipes'."""
    _write("svhn", options)


@command("yfcc100m")
@preparation
@option("--test-share", type=click.FLOAT, default=0.05, show_default=True, help="Share of the test split.")
@option("--seed", type=click.INT, default=0, show_default=True, help="Seed of the test split.")
@_MAX_UNPACKED
@_PARTIAL
@_WORKERS
def yfcc100m(**options: Any) -> None:
    """YFCC100M from archives, folders, and texts that name archives or images."""
    _write("yfcc100m", options)
