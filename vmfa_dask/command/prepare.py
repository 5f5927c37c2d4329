"""``vmfa-dask prepare``: stores of rows from images, tables and data sets. May import: command, data_prep."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from vmfa_dask.command.clusters import Cluster
from vmfa_dask.command.groups import LazyGroup
from vmfa_dask.command.options import EXISTING, NEW_PATH, command, option, scheduler_options, with_options

prepare = LazyGroup(
    "prepare",
    {
        "images": ("prepare", "Folders, archives and files of images."),
        "arrays": ("prepare", "NumPy, HDF5 and Parquet files."),
        "cifar10": ("recipes", "CIFAR-10."),
        "celeba": ("recipes", "CelebA."),
        "emnist": ("recipes", "EMNIST."),
        "svhn": ("recipes", "SVHN."),
        "yfcc100m": ("recipes", "YFCC100M."),
    },
    help="Turn files into a Zarr store of rows; nothing is downloaded.",
    epilog="Interrupted calls resume when they are repeated.",
)
_MOST_NAMES = 1000  # of skipped images that the command prints; the store lists more


def preparation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what all preparations have: sources, the target, a scheduler whose workers write, and a number of workers.

    Parameters
    ----------
    function : callable
        Of the command, below `command`.

    Returns
    -------
    callable
        The function itself.
    """
    function = with_options(scheduler_options())(function)
    function = click.argument("target", type=NEW_PATH)(function)
    return click.argument("sources", type=EXISTING, nargs=-1, required=True)(function)


def workers_option(what: str) -> Callable[..., Any]:
    """Make the option ``--workers``.

    Parameters
    ----------
    what : str
        What works: processes or threads.

    Returns
    -------
    callable
        Decorator of the command's function.
    """
    text = f"Number of {what} [default: one per core]"
    return option("--workers", type=click.IntRange(min=1), metavar="N", help=text)


@contextmanager
def writing(options: dict[str, Any]) -> Iterator[Any]:
    """Connect to the scheduler of a preparation, and say what an interrupt leaves.

    Parameters
    ----------
    options : dict
        Values of the command; those of `scheduler_options` are removed.

    Yields
    ------
    distributed.Client or None
        None without ``--scheduler``: then this machine does the work.

    Raises
    ------
    KeyboardInterrupt
        With a sentence.
    """
    n_workers = options.pop("workers", None)
    cluster = Cluster.taken_from(options)
    options["workers"] = n_workers
    try:
        with cluster.client_if_asked() as client:
            yield client
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the preparation was interrupted; the same call resumes it") from None


@command("images")
@preparation
@option("--size", nargs=2, type=click.INT, metavar="H W", help="Crop around the centre and resize.")
@option("--channels", type=click.Choice(["1", "3"]), default="3", show_default=True, help="Grey or RGB.")
@option(
    "--frames", type=click.Choice(["first", "all"]), default="first", show_default=True, help="Frames that become rows."
)
@option("--rows-per-chunk", type=click.INT, metavar="N", help="Images per chunk [default: about 2 MiB].")
@option("--test-share", type=click.FLOAT, metavar="SHARE", help="Draw a test split, as arrays train and test.")
@option("--seed", type=click.INT, default=0, show_default=True, help="Seed of the test split.")
@option(
    "--max-unpacked", type=click.INT, metavar="BYTES",
    help="Largest size that an archive may unpack to [default: 1 GiB, or 100 times its size if that is more].",
)  # fmt: skip
@option("--overwrite", is_flag=True, help="Replace an existing store.")
@workers_option("processes")
def images(sources: tuple[str, ...], target: str, channels: str, **options: Any) -> None:
    """Turn images into a uint8 Zarr array (N, height, width, channels).

    SOURCES are folders, tar and zip archives, and image files; TARGET is the new store. Needs the extra 'images'.
    """
    with writing(options) as client:
        from vmfa_dask.data_prep.images_to_zarr import images_to_zarr

        report = images_to_zarr(sources, target, channels=int(channels), client=client, **options)
    for name, reason in report.skipped[:_MOST_NAMES]:
        # Names come from foreign archives: control characters must not reach the terminal.
        click.echo(f"skipped {name!a}: {reason!a}", err=True)
    sides = ", ".join(f"{n} {side}" for side, n in report.rows.items() if side)
    unused = f", {report.unused_frames} frames of {report.unused_files} file(s) not used" if report.unused_files else ""
    click.echo(f"{report.written} images written{f' ({sides})' if sides else ''}, {report.n_skipped} skipped{unused}")


@command("arrays")
@preparation
@option("--dataset", metavar="NAME", help="Data set of HDF5 files.")
@option("--columns", metavar="A,B", help="Columns of Parquet files.")
@option("--dtype", metavar="DTYPE", help="Dtype of the store, such as float32; numbers are rounded to it.")
@option("--allow-nonfinite", is_flag=True, help="Keep NaN and infinity, which fits refuse.")
@option("--compress", is_flag=True, help="Compress chunks by Zstandard.")
@option("--test-share", type=click.FLOAT, metavar="SHARE", help="Draw a test split, as arrays train and test.")
@option("--seed", type=click.INT, default=0, show_default=True, help="Seed of the test split.")
@workers_option("threads")
def arrays(sources: tuple[str, ...], target: str, columns: str | None, **options: Any) -> None:
    """Turn files of rows into one Zarr array.

    SOURCES are .npy, .h5, .hdf5, .parquet and .pq files, and folders of them; TARGET is the new store. HDF5 and Parquet
    need the extra 'tables'.
    """
    with writing(options) as client:
        import zarr

        from vmfa_dask.data_prep.arrays_to_zarr import arrays_to_zarr
        from vmfa_dask.data_prep.file_tables import listed

        chosen = next(csv.reader([columns])) if columns else None
        n_rows = arrays_to_zarr(sources, target, columns=chosen, client=client, **options)
        used: Any = zarr.open(target, mode="r").attrs.get("columns")
    click.echo(f"{target}: {n_rows} rows{f', columns {listed(used, 12)}' if used else ''}")
