"""Turns arrays in files (`.npy`, `.h5`, `.parquet`) and folders of them into one sharded Zarr array of rows.

Rows keep the order of the sources, and their dtype. A task writes one shard; shards that exist already are not written
again, so that the same call resumes after an interruption. Imports `builds`, `table_files`, `table_sources`,
`table_dtypes`, `file_tables`, `parquet_tables`, `source_files`, `splits`, `shards` and `tables`.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from vmfa_dask.data_prep.builds import begin, finish, in_work, require_unchanged
from vmfa_dask.data_prep.file_tables import listed
from vmfa_dask.data_prep.parquet_tables import ParquetTable
from vmfa_dask.data_prep.shards import listed_sources, require_apart, require_place, write_store
from vmfa_dask.data_prep.source_files import file_fingerprint
from vmfa_dask.data_prep.splits import TEST, TRAIN, HashSplit, SideTable
from vmfa_dask.data_prep.table_dtypes import ConvertedTable, stated_dtype, target_of
from vmfa_dask.data_prep.table_files import find_files
from vmfa_dask.data_prep.table_sources import Source, open_tables
from vmfa_dask.data_prep.tables import Outline, Table

logger = logging.getLogger(__name__)


def arrays_to_zarr(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    dataset: str | None = None,
    columns: str | Sequence[str] | None = None,
    dtype: Any = None,
    allow_nonfinite: bool = False,
    compress: bool = False,
    test_share: float | None = None,
    seed: int = 0,
    client: Any = None,
    workers: int | None = None,
) -> int:
    """Write the rows of all sources to one Zarr array, or to a group of two.

    Parameters
    ----------
    sources : path or sequence of path
        Files with rows of the same shape, and folders of such files in one format. A folder is read recursively, in
        the natural order of the paths (``part.2`` before ``part.10``), without files that are hidden or whose names
        begin with an underscore.
    target : path
        The new store. It appears when it is complete; until then it is ``TARGET.partial`` beside it, from which the
        same call resumes.
    dataset : str, optional
        The data set of HDF5 files that hold several.
    columns : str or sequence of str, optional
        Columns of Parquet files; by default all but those that hold the index of a frame. The store keeps their names
        in its attribute ``columns``. Their order may differ from file to file.
    dtype : dtype, optional
        The dtype of the store, an integer or a float of at most 64 bits. Numbers are rounded to the digits of a float;
        those out of its range, and fractions if it is an integer, end the call. By default it is the dtype of the
        sources, or the one to which theirs are joined; a whole number that would be rounded (int64 with float32) ends
        the call.
    allow_nonfinite : bool
        Keep NaN and infinity, which fits refuse. By default they end the call.
    compress : bool
        Compress chunks by Zstandard. Pixels and measured floats hardly shrink, and every pass would pay for it.
    test_share : float, optional
        Probability that a row is drawn for ``test``; the store becomes a group of two arrays, ``train`` and ``test``.
        The draw is a hash of `seed`, the name of the file (its path inside a folder) and the number of the row.
    seed : int
        Seed of the test split.
    client : distributed.Client, optional
        Workers that write the shards; they must see sources and target. By default threads of this process write.
    workers : int, optional
        Number of threads; by default one per available core.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    ValueError
        If a source cannot be read as rows, a value is missing or not held by the dtype (naming file and row), sources
        changed during the call, or ``TARGET.partial`` was begun from other sources or with other options.
    FileExistsError
        If there is something at `target`, or another process is writing it.
    FileNotFoundError
        If a source, or the folder of `target`, does not exist.
    """
    stated = None if dtype is None else stated_dtype(dtype)
    split = None if test_share is None else HashSplit(test_share, seed)
    columns = [columns] if isinstance(columns, str) else columns
    paths, target = listed_sources(sources), Path(target).absolute()
    require_place(target)
    require_apart(target, [path for path in paths if path.is_dir()])
    files = find_files(paths)
    fingerprints = [file_fingerprint(file.path) for file in files]
    opened = open_tables(files, dataset, columns)
    _log_columns(opened)
    to, notices = target_of([source.table for source in opened], stated)
    for notice in notices:
        logger.warning(notice)
    tables = [(source.file.key, ConvertedTable(source.table, to, allow_nonfinite)) for source in opened]
    n_features = len(tables[0][1].shape) - 1
    names = ("feature",) if n_features == 1 else tuple(f"feature_{k}" for k in range(n_features))
    parts: dict[str, list[Table]] = {"": [table for _, table in tables]}
    if split is not None:
        sides = {TRAIN: False, TEST: True}
        parts = {side: [SideTable.of(t, key, split, is_test) for key, t in tables] for side, is_test in sides.items()}
    outlines = {side: Outline(part, ("sample", *names), compress=compress) for side, part in parts.items()}
    origin = [
        [_description(source) for source in opened],
        {"dtype": to.dtype.str, "stated": to.stated, "allow_nonfinite": allow_nonfinite, "compress": compress},
        None if split is None else asdict(split),
    ]
    attributes: dict[str, Any] = {"sources": json.dumps(origin)}
    if used := _columns(opened):
        attributes["columns"] = list(used)
    with in_work(target) as partial:
        begin(partial, fingerprints, origin)
        write_store(partial, outlines, attributes, client=client, workers=workers)
        require_unchanged(fingerprints, [file_fingerprint(file.path) for file in files])
        finish(partial, target)
    return sum(outline.shape[0] for outline in outlines.values())


def _description(source: Source) -> list[Any]:
    """Key, shape, dtypes and size of a source, as JSON values."""
    file, table = source
    dtypes = [[np.dtype(kind).str, len(list(run))] for kind, run in itertools.groupby(table.dtypes)]
    return [file.key, list(table.shape), dtypes, file.path.stat().st_size, getattr(table, "dataset", None)]


def _columns(sources: Sequence[Source]) -> tuple[str, ...]:
    """Names of the columns; numeric ones if there are any, else that of the column of lists."""
    tables = [table for _, table in sources if isinstance(table, ParquetTable)]
    return next((table.columns for table in sorted(tables, key=lambda table: table.lists)), ())


def _log_columns(sources: Sequence[Source]) -> None:
    """Log which columns become features and which do not, once for all files with the same columns."""
    used: dict[tuple[str, ...], list[Path]] = {}
    left_out: dict[tuple[str, ...], list[Path]] = {}
    for file, table in sources:
        if isinstance(table, ParquetTable):
            used.setdefault(table.columns, []).append(file.path)
            names = [f"{name} (the index of a frame)" for name in table.left_out]
            names += [f"{name} (in the names of folders only)" for name in file.partition_keys]
            left_out.setdefault(tuple(names), []).append(file.path)
    for meaning, groups in {"columns": used, "left out": left_out}.items():
        for columns, paths in groups.items():
            if columns:
                more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
                logger.info("%s%s: %s %s", paths[0], more, meaning, listed(columns))
