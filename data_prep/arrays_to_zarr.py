"""Turns arrays in files (`.npy`, `.h5`, `.parquet`) into one sharded Zarr array of rows.

    python -m data_prep.arrays_to_zarr SOURCE [SOURCE ...] TARGET.zarr [--dataset NAME] [--columns A,B] [--cluster URL]

Rows keep the order of the sources, and their dtype. A task writes one shard; shards that are there already are not
written again, so that the same call goes on after an interruption. Imports `table_sources`, `cores`, NumPy and Zarr.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from data_prep.cores import available_cores
from data_prep.table_sources import Block, Table, open_tables

logger = logging.getLogger(__name__)

CHUNK_BYTES = 2 * 2**20
CHUNKS_PER_SHARD = 32
_MARKER = "zarr.json"


def arrays_to_zarr(
    sources: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    dataset: str | None = None,
    columns: Sequence[str] | None = None,
    compress: bool = False,
    client: Any = None,
    workers: int | None = None,
) -> int:
    """Write the rows of all sources to one Zarr array; returns their number.

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
    target = Path(target).absolute()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of target {target} does not exist")
    if os.path.lexists(target):
        raise FileExistsError(f"target {target} exists; remove it first")
    tables = open_tables(sources, dataset, columns)
    partial = target.with_name(target.name + ".partial")
    array = _begin(partial, tables, compress)
    shard = array.shards[0] if array.shards else array.chunks[0]
    ranges = [(start, min(start + shard, array.shape[0])) for start in range(0, array.shape[0], shard)]
    left = [r for r in ranges if not _is_written(array, partial, r[0] // shard)]
    if len(left) < len(ranges):
        logger.info("%d of %d shards are written already", len(ranges) - len(left), len(ranges))
    for done, _ in enumerate(_each(left, str(partial), tables, client, workers), 1):
        logger.info("%d of %d shards", len(ranges) - len(left) + done, len(ranges))
    os.rename(partial, target)
    return int(array.shape[0])


def _begin(partial: Path, tables: Sequence[Table], compress: bool) -> zarr.Array[Any]:
    """The store in work: a new one, or that of an earlier call with the same sources."""
    n_rows, features = sum(table.shape[0] for table in tables), tables[0].shape[1:]
    dtype = np.result_type(*(table.dtype for table in tables)).newbyteorder("=")
    sources = [[table.path.name, list(table.shape), table.dtype.str, table.path.stat().st_size] for table in tables]
    known = json.dumps([sources, compress])
    if (partial / _MARKER).is_file():
        found = zarr.open_array(partial, mode="r+")
        if found.attrs.get("sources") == known:
            return found
        raise ValueError(f"{partial} was begun from other sources; remove it to begin anew")
    shutil.rmtree(partial, ignore_errors=True)  # not even the description of an array was written
    inner = max(1, CHUNK_BYTES // (int(np.prod(features)) * dtype.itemsize))
    outer = inner * min(CHUNKS_PER_SHARD, -(-n_rows // inner))
    return zarr.create_array(
        partial,
        shape=(n_rows, *features),
        dtype=dtype,
        chunks=(inner, *features),
        shards=(outer, *features),
        compressors="auto" if compress else None,
        dimension_names=("sample", *(f"feature_{k}" if len(features) > 1 else "feature" for k in range(len(features)))),
        attributes={"sources": known},
        config={"write_empty_chunks": True},  # a chunk that is missing means lost data
    )


def _is_written(array: zarr.Array[Any], path: Path, shard: int) -> bool:
    """Zarr writes a shard to a file of another name first, so that one that is there is whole."""
    return (path / array.metadata.encode_chunk_key((shard, *(0,) * (array.ndim - 1)))).is_file()


def _each(
    ranges: Sequence[tuple[int, int]], path: str, tables: Sequence[Table], client: Any, workers: int | None
) -> Iterator[None]:
    """Write every range, on the cluster or in threads; yields as they are done, and ends with the first error."""
    if client is not None:
        from distributed import as_completed

        futures = client.map(_write, ranges, path=path, tables=list(tables), pure=False)
        for future in as_completed(futures, loop=client.loop):
            yield future.result()
        return
    with ThreadPoolExecutor(workers or available_cores()) as pool:
        waiting = [pool.submit(_write, r, path, tables) for r in ranges]
        try:
            for done in waiting:
                yield done.result()
        finally:
            for future in waiting:
                future.cancel()


def _write(rows: tuple[int, int], path: str, tables: Sequence[Table]) -> None:
    """One shard, from the parts of the sources that lie in it."""
    start, stop = rows
    array = zarr.open_array(path, mode="r+")
    array[start:stop] = np.concatenate([part.astype(array.dtype, copy=False) for part in _parts(tables, start, stop)])


def _parts(tables: Sequence[Table], start: int, stop: int) -> Iterator[Block]:
    edges = list(itertools.accumulate((table.shape[0] for table in tables), initial=0))
    for table, low, high in zip(tables, edges, edges[1:], strict=False):
        if low < stop and high > start:
            yield table.read(max(start, low) - low, min(stop, high) - low)


def _with_cluster(address: str | None, write: Callable[[Any], int]) -> int:
    if address is None:
        return write(None)
    from distributed import Client

    with Client(address, timeout=30) as client:
        return write(client)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 1 after an error, which is one line."""
    parser = argparse.ArgumentParser(prog="python -m data_prep.arrays_to_zarr", description=__doc__)
    parser.add_argument("sources", nargs="+", help=".npy, .h5, .hdf5, .parquet or .pq files")
    parser.add_argument("target", help="the new Zarr store")
    parser.add_argument("--dataset", help="data set of HDF5 files")
    parser.add_argument("--columns", help="columns of Parquet files, separated by commas")
    parser.add_argument("--compress", action="store_true", help="compress chunks by Zstandard")
    parser.add_argument("--cluster", help="address of a Dask scheduler whose workers write the shards")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    columns = options.columns.split(",") if options.columns else None
    choices = {"dataset": options.dataset, "columns": columns, "compress": options.compress}
    try:
        n_rows = _with_cluster(
            options.cluster, lambda client: arrays_to_zarr(options.sources, options.target, client=client, **choices)
        )
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{options.target}: {n_rows} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
