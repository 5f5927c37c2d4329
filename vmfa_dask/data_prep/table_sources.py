"""Opens files of rows: `.npy`, data sets of HDF5, columns of Parquet.

Nothing is unpickled, and a link out of an HDF5 file is not followed. A file that holds fewer rows than it states is
refused. Imports `table_files`, `file_tables`, `hdf5_tables`, `npy_tables` and `parquet_tables`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from vmfa_dask.data_prep.file_tables import FileTable
from vmfa_dask.data_prep.hdf5_tables import Hdf5Table
from vmfa_dask.data_prep.npy_tables import NpyTable
from vmfa_dask.data_prep.parquet_tables import ParquetTable
from vmfa_dask.data_prep.table_files import SourceFile

logger = logging.getLogger(__name__)


_KINDS: dict[str, Any] = {"NumPy": NpyTable, "HDF5": Hdf5Table, "Parquet": ParquetTable}


class Source(NamedTuple):
    """A file and its rows.

    Parameters
    ----------
    file : SourceFile
        Path and key.
    table : FileTable
        The rows.
    """

    file: SourceFile
    table: FileTable


def open_tables(
    files: Sequence[SourceFile], dataset: str | None = None, columns: Sequence[str] | None = None
) -> list[Source]:
    """Open files and check that their rows fit together.

    Parameters
    ----------
    files : sequence of SourceFile
        In the order of rows.
    dataset : str, optional
        The data set of HDF5 files that hold several.
    columns : sequence of str, optional
        The columns of Parquet files; by default all but those that hold the index of a frame.

    Returns
    -------
    list of Source
        In the same order, without files of folders that hold no rows; named columns are in the order of the first file
        that has any.

    Raises
    ------
    ValueError
        If files differ in the shape of their rows or in their columns, or one is damaged; the message names the file.
    """
    sources = [Source(file, _KINDS[file.format].open(file.path, dataset, columns)) for file in files]
    empty = [file for file, table in sources if file.in_folder and table.shape[:1] == (0,)]
    if empty and len(empty) < len(sources):
        logger.info("%d file(s) hold no rows and are left out, the first is %s", len(empty), empty[0].path)
        left_out = set(empty)
        sources = [source for source in sources if source.file not in left_out]
    first = sources[0].table
    for file, table in sources:
        if len(table.shape) < 2 or min(table.shape) == 0:
            raise ValueError(f"{file.path}: shape {table.shape}, expected (rows, features...) with values")
        if table.shape[1:] != first.shape[1:] and not (_has_columns(table) and _has_columns(first)):
            raise ValueError(
                f"{file.path}: rows of shape {table.shape[1:]}, expected {first.shape[1:]} as in {first.path}"
            )
    return _columns_alike(sources)


def _columns_alike(sources: Sequence[Source]) -> list[Source]:
    """Reorder columns as in the first file that has named ones."""
    first = next((table for _, table in sources if _has_columns(table)), None)
    if not isinstance(first, ParquetTable):
        return list(sources)
    return [
        Source(file, table.in_order_of(first) if isinstance(table, ParquetTable) and _has_columns(table) else table)
        for file, table in sources
    ]


def _has_columns(table: FileTable) -> bool:
    return table.names != ("",)
