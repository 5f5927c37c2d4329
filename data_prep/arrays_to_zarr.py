"""Turns arrays in files (`.npy`, `.h5`, `.parquet`) into one sharded Zarr array of rows.

    python -m data_prep.arrays_to_zarr SOURCE [SOURCE ...] TARGET.zarr [--dataset NAME] [--columns A,B]
        [--test-share 0.05 --seed 0] [--cluster URL]

Rows keep the order of the sources, and their dtype. A task writes one shard; shards that are there already are not
written again, so that the same call goes on after an interruption. Imports `table_sources`,
`splits`, `shards` and `tasks`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data_prep.shards import Outline, Table, partial_of, require_place, write_store
from data_prep.splits import TEST, TRAIN, HashSplit, SideTable
from data_prep.table_sources import open_tables
from data_prep.tasks import with_cluster


def arrays_to_zarr(
    sources: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    dataset: str | None = None,
    columns: Sequence[str] | None = None,
    compress: bool = False,
    test_share: float | None = None,
    seed: int = 0,
    client: Any = None,
    workers: int | None = None,
) -> int:
    """Write the rows of all sources to one Zarr array, or to a group of two; returns their number.

    Parameters
    ----------
    sources : sequence of path
        Files of one row shape; their dtypes are joined to one that holds all of them.
    target : path
        The new store. It appears when it is complete; until then it is ``TARGET.partial`` beside it, with which the
        same call goes on.
    dataset : str, optional
        The data set of HDF5 files, where they hold several.
    columns : sequence of str, optional
        Columns of Parquet files; by default all.
    compress : bool
        Compress chunks by Zstandard. Pixels and measured floats hardly shrink, and every pass would pay for it.
    test_share : float, optional
        The store becomes a group of two arrays, ``train`` and ``test``, and this share of the rows is drawn for
        ``test`` by a hash of `seed`, the name of the source and the number of the row in it.
    seed : int
        Of `test_share`.
    client : distributed.Client, optional
        Workers that write the shards; they must see sources and target. By default threads of this process write.
    workers : int, optional
        Threads, by default one per available core.

    Raises
    ------
    ValueError
        When a source cannot be read as rows, or the partial store is of other sources.
    FileExistsError
        When there is something at `target`.
    FileNotFoundError
        When a source, or the folder of `target`, does not exist.
    """
    split = None if test_share is None else HashSplit(test_share, seed)
    target = Path(target).absolute()
    require_place(target)
    tables = open_tables(sources, dataset, columns)
    described = [[table.path.name, list(table.shape), table.dtype.str, table.path.stat().st_size] for table in tables]
    n_features = len(tables[0].shape) - 1
    names = ("feature",) if n_features == 1 else tuple(f"feature_{k}" for k in range(n_features))
    parts = {"": list[Table](tables)}
    known: list[Any] = [described, compress]
    if split is not None:
        sides = {TRAIN: False, TEST: True}
        parts = {
            side: [SideTable.of(t, t.path.name, split, is_test) for t in tables] for side, is_test in sides.items()
        }
        known.append(asdict(split))
    outlines = {side: Outline(part, ("sample", *names), compress=compress) for side, part in parts.items()}
    partial = partial_of(target)
    write_store(partial, outlines, {"sources": json.dumps(known)}, client=client, workers=workers)
    os.rename(partial, target)
    return sum(outline.shape[0] for outline in outlines.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 1 after an error, which is one line."""
    parser = argparse.ArgumentParser(prog="python -m data_prep.arrays_to_zarr", description=__doc__)
    parser.add_argument("sources", nargs="+", help=".npy, .h5, .hdf5, .parquet or .pq files")
    parser.add_argument("target", help="the new Zarr store")
    parser.add_argument("--dataset", help="data set of HDF5 files")
    parser.add_argument("--columns", help="columns of Parquet files, separated by commas")
    parser.add_argument("--compress", action="store_true", help="compress chunks by Zstandard")
    parser.add_argument("--test-share", type=float, help="draw a test split: arrays train and test")
    parser.add_argument("--seed", type=int, default=0, help="of the test split (default: 0)")
    parser.add_argument("--cluster", help="address of a Dask scheduler whose workers write the shards")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    columns = options.columns.split(",") if options.columns else None
    choices = {"dataset": options.dataset, "columns": columns, "compress": options.compress}
    choices |= {"test_share": options.test_share, "seed": options.seed}
    try:
        n_rows = with_cluster(
            options.cluster, lambda client: arrays_to_zarr(options.sources, options.target, client=client, **choices)
        )
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{options.target}: {n_rows} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
