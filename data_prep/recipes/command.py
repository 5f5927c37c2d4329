"""What the commands of all recipes share: arguments, errors as one line, and stores made of tables.

Imports `builds`, `paper`, `shards`, `source_files`, `tasks` and the standard library.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from data_prep.builds import begin, finish, in_work, require_unchanged
from data_prep.recipes.paper import DATA_SETS
from data_prep.shards import Outline, Table, require_place, write_store
from data_prep.source_files import error_line, file_fingerprint
from data_prep.tasks import with_cluster

Prepare = Callable[..., dict[str, int]]
"""``prepare(sources, target, *, partial, client, **options)``: writes the store, returns its rows per side."""

IMAGES = ("sample", "height", "width", "channel")
LABELS = ("sample",)


def write_tables(
    target: Path,
    arrays: Mapping[str, Sequence[Table]],
    origin: Any,
    files: Sequence[Path],
    *,
    client: Any = None,
    workers: int | None = None,
) -> dict[str, int]:
    """Write a group of arrays at once, or go on with it.

    Parameters
    ----------
    target : path
        Absolute. The store appears there when it is complete.
    arrays : mapping of name to sequence of Table
        Images and, where the name ends with ``_labels``, labels.
    origin : Any
        JSON values that tell these sources and options from others.
    files : sequence of path
        That the rows are read from.
    client, workers
        As in `tasks.each`.

    Returns
    -------
    dict of str to int
        Rows of ``train`` and ``test``.

    Raises
    ------
    ValueError
        When the store in work was begun from other sources or with other options, or sources changed meanwhile.
    FileExistsError, FileNotFoundError
        When there is something at `target`, or its folder does not exist; when another process is writing it.
    """
    require_place(target)
    outlines, attributes = outlines_of(arrays), {"sources": json.dumps(origin)}
    prints = [file_fingerprint(path) for path in files]
    with in_work(target) as partial:
        begin(partial, prints, origin)
        write_store(partial, outlines, attributes, client=client, workers=workers)
        require_unchanged(prints, [file_fingerprint(path) for path in files])
        finish(partial, target)
    return {side: outlines[side].shape[0] for side in ("train", "test")}


def outlines_of(arrays: Mapping[str, Sequence[Table]]) -> dict[str, Outline]:
    """Return what is to be written of arrays, see `write_tables`."""
    return {name: Outline(tables, LABELS if name.endswith("_labels") else IMAGES) for name, tables in arrays.items()}


def fingerprint(path: Path) -> list[Any]:
    """Return name, size and time of a file, as JSON values."""
    status = path.stat()
    return [path.name, status.st_size, status.st_mtime_ns]


def parser(name: str, expects: str) -> argparse.ArgumentParser:
    """Return the arguments that all recipes take; `expects` says what the sources are."""
    expected = DATA_SETS[name]
    found = argparse.ArgumentParser(
        prog=f"python -m data_prep.recipes.{name}",
        description=f"{expects} The paper has {expected.train:,} training and {expected.test:,} test images.",
    )
    found.add_argument("sources", nargs="+", metavar="SOURCE", help="files, or folders that hold them")
    found.add_argument("target", metavar="TARGET.zarr", help="the new store, a group")
    found.add_argument("--partial", action="store_true", help="go on with fewer images than the paper has")
    found.add_argument("--cluster", metavar="URL", help="address of a Dask scheduler whose workers do it")
    found.add_argument("--workers", type=int, metavar="N", help="threads (default: one per core)")
    return found


def add_limit(options: argparse.ArgumentParser) -> None:
    """Add the argument of recipes that read archives of images."""
    options.add_argument("--max-unpacked", type=int, metavar="BYTES", help="that an archive may unpack to")


def run(name: str, prepare: Prepare, options: argparse.Namespace) -> int:
    """Run a recipe; the exit code is 1 after an error, which is one line."""
    chosen = vars(options)
    cluster = chosen.pop("cluster")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        rows = with_cluster(cluster, lambda client: prepare(**chosen, client=client))
    except (ValueError, OSError, ImportError, MemoryError) as error:
        print(error_line(error), file=sys.stderr)
        return 1
    expected = DATA_SETS[name]
    for side, paper in (("train", expected.train), ("test", expected.test)):
        print(f"{side}: {rows[side]:,} images, {paper:,} in the paper")
    return 0
