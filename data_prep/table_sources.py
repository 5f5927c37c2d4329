"""Opens files of rows: `.npy`, data sets of HDF5, columns of Parquet.

Nothing is unpickled, and a link out of an HDF5 file is not followed. Imports `table_files`, `file_tables`,
`parquet_tables`, `shards` for its types, NumPy and h5py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data_prep.file_tables import FileTable, opened, refuse_choices
from data_prep.parquet_tables import ParquetTable
from data_prep.shards import Block
from data_prep.table_files import SourceFile

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class NpyTable:
    """A `.npy` file, mapped into memory."""

    path: Path
    shape: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]
    names: tuple[str, ...] = ("",)

    @classmethod
    def open(cls, path: Path, dataset: str | None, columns: Sequence[str] | None) -> NpyTable:
        """Read the header."""
        refuse_choices(path, dataset=dataset, columns=columns)
        array = _mapped(path)
        return cls(path, array.shape, (array.dtype,))

    def pieces(self, start: int, stop: int) -> Iterator[Block]:
        """The rows, still on disk."""
        yield _mapped(self.path)[start:stop]


@dataclass(frozen=True)
class Hdf5Table:
    """A data set of an HDF5 file; `fill` are the values that stand for missing ones."""

    path: Path
    dataset: str
    shape: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]
    fill: tuple[Any, ...] = ()
    names: tuple[str, ...] = ("",)

    @classmethod
    def open(cls, path: Path, dataset: str | None, columns: Sequence[str] | None) -> Hdf5Table:
        """Find the data set."""
        import h5py

        refuse_choices(path, columns=columns)
        with opened(path, lambda: h5py.File(path, "r")) as file:
            found: list[str] = []
            file.visititems(lambda name, node: found.append(name) if isinstance(node, h5py.Dataset) else None)
            name = found[0] if dataset is None and len(found) == 1 else (dataset or "").strip("/")
            if name not in found:  # names behind soft and external links are not among those that a visit finds
                raise ValueError(
                    f"{path} holds the data sets {', '.join(map(repr, sorted(found))) or 'none'}; "
                    f"choose one, found dataset={dataset!r}"
                )
            data = file[name]
            if data.external or data.is_virtual:
                raise ValueError(f"{path}: data set {name!r} keeps its values in other files, which are not followed")
            return cls(path, name, data.shape or (), (data.dtype,), _fill_values(path, name, data.attrs))

    def pieces(self, start: int, stop: int) -> Iterator[Block]:
        """Rows of the data set."""
        import h5py

        with h5py.File(self.path, "r") as file:
            rows = np.asarray(file[self.dataset][start:stop])
        for value in self.fill:
            missing = (rows == value).reshape(len(rows), -1).any(axis=1)
            if missing.any():
                raise ValueError(
                    f"{self.path}: row {start + int(np.argmax(missing))} holds {value}, which data set "
                    f"{self.dataset!r} states for missing values ({np.count_nonzero(missing)} of the rows {start} to "
                    f"{stop - 1} do); leave such rows out"
                )
        yield rows


_KINDS: dict[str, Any] = {"NumPy": NpyTable, "HDF5": Hdf5Table, "Parquet": ParquetTable}


class Source(NamedTuple):
    """A file, and its rows."""

    file: SourceFile
    table: FileTable


def open_tables(
    files: Sequence[SourceFile], dataset: str | None = None, columns: Sequence[str] | None = None
) -> list[Source]:
    """Open files, in the given order, of one row shape and, where they have named columns, of the same ones.

    Files of a folder that hold no rows are left out.

    Raises
    ------
    ValueError
        Naming the file, what was found and what is expected.
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
    """The same files, their columns in the order of the first one that has columns."""
    first = next((table for _, table in sources if _has_columns(table)), None)
    if not isinstance(first, ParquetTable):
        return list(sources)
    return [
        Source(file, table.in_order_of(first) if isinstance(table, ParquetTable) and _has_columns(table) else table)
        for file, table in sources
    ]


def _has_columns(table: FileTable) -> bool:
    return table.names != ("",)


def _mapped(path: Path) -> Block:
    mapped: Block = opened(path, lambda: np.lib.format.open_memmap(path, mode="r"))
    return mapped


def _fill_values(path: Path, name: str, attributes: Any) -> tuple[Any, ...]:
    """Values that stand for missing ones by the conventions of netCDF, under which packed values are refused."""
    for packing, neutral in {"scale_factor": 1, "add_offset": 0}.items():
        if packing in attributes and np.any(np.asarray(attributes[packing]) != neutral):
            raise ValueError(
                f"{path}: data set {name!r} holds packed values ({packing}={attributes[packing]}), expected values as "
                "they are; open the file with xarray, which unpacks them, and write them anew"
            )
    stated = [np.ravel(attributes[key]) for key in ("_FillValue", "missing_value") if key in attributes]
    values = [value for array in stated if array.dtype.kind in "iuf" for value in array.tolist()]
    return tuple(dict.fromkeys(value for value in values if value == value))
