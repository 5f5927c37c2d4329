"""Arrays of rows in files as they travel: NumPy, HDF5 and Parquet, read in ranges of rows.

A source is opened anew in every thread and process that reads it; what travels is its path. Files are not trusted:
nothing is unpickled, and a link out of an HDF5 file is not followed. Imports `shards` for its types, NumPy, h5py
and pyarrow.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from data_prep.shards import Block, Table


class FileTable(Table, Protocol):
    """Rows of one file."""

    @property
    def path(self) -> Path:
        """The file."""
        ...


@dataclass(frozen=True)
class NpyTable:
    """A `.npy` file, mapped into memory."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def open(cls, path: Path, dataset: str | None, columns: Sequence[str] | None) -> NpyTable:
        """Read the header."""
        _refuse_choices(path, dataset=dataset, columns=columns)
        array = _mapped(path)
        return cls(path, array.shape, array.dtype)

    def read(self, start: int, stop: int) -> Block:
        """A copy of the rows."""
        return np.array(_mapped(self.path)[start:stop])


@dataclass(frozen=True)
class Hdf5Table:
    """A data set of an HDF5 file."""

    path: Path
    dataset: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def open(cls, path: Path, dataset: str | None, columns: Sequence[str] | None) -> Hdf5Table:
        """Find the data set."""
        import h5py

        _refuse_choices(path, columns=columns)
        with _opened(path, lambda: h5py.File(path, "r")) as file:
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
            return cls(path, name, data.shape, data.dtype)

    def read(self, start: int, stop: int) -> Block:
        """Rows of the data set."""
        import h5py

        with h5py.File(self.path, "r") as file:
            return np.asarray(file[self.dataset][start:stop])


@dataclass(frozen=True)
class ParquetTable:
    """Columns of a Parquet file: one column of lists of equal length, or numeric columns side by side.

    `row_groups` are the first rows of the file's row groups, and its end.
    """

    path: Path
    columns: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    row_groups: tuple[int, ...]

    @classmethod
    def open(cls, path: Path, dataset: str | None, columns: Sequence[str] | None) -> ParquetTable:
        """Read the footer, and one row to see how long its lists are."""
        import pyarrow.parquet as pq

        _refuse_choices(path, dataset=dataset)
        with _opened(path, lambda: pq.ParquetFile(path)) as file:
            schema, metadata = file.schema_arrow, file.metadata
            names = tuple(columns) if columns else tuple(schema.names)
            unknown = [name for name in names if name not in schema.names]
            if unknown:
                raise ValueError(f"{path} has the columns {', '.join(schema.names)}; found {unknown[0]!r}")
            kinds = [schema.field(name).type for name in names]
            ends = tuple(np.cumsum([0, *(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups))]))
            first = next(file.iter_batches(1, columns=list(names)), None)
        if first is None:
            raise ValueError(f"{path} holds no rows")
        if not _fits(kinds):
            listed = ", ".join(f"{name} ({kind})" for name, kind in zip(names, kinds, strict=True))
            raise ValueError(
                f"{path}: the columns {listed} are neither one column of lists of numbers nor numeric columns; choose "
                "columns that are"
            )
        row = _rows_of(path, 0, first, names, None)
        return cls(path, names, (int(ends[-1]), row.shape[1]), row.dtype, tuple(int(end) for end in ends))

    def read(self, start: int, stop: int) -> Block:
        """Rows from the row groups that hold them."""
        import pyarrow.parquet as pq

        groups = [g for g in range(len(self.row_groups) - 1) if self._overlaps(g, start, stop)]
        offset = self.row_groups[groups[0]]
        with pq.ParquetFile(self.path) as file:
            table = file.read_row_groups(groups, columns=list(self.columns), use_threads=False)
        part = table.slice(start - offset, stop - start).combine_chunks()
        return _rows_of(self.path, start, part, self.columns, self.shape[1])

    def _overlaps(self, group: int, start: int, stop: int) -> bool:
        return self.row_groups[group] < stop and self.row_groups[group + 1] > start


_KINDS: dict[str, Any] = {
    ".npy": NpyTable,
    ".h5": Hdf5Table,
    ".hdf5": Hdf5Table,
    ".parquet": ParquetTable,
    ".pq": ParquetTable,
}


def open_tables(
    paths: Sequence[str | os.PathLike[str]], dataset: str | None = None, columns: Sequence[str] | None = None
) -> list[FileTable]:
    """One table per file, in the given order, of one row shape and of dtypes that vmfa_dask reads.

    Raises
    ------
    FileNotFoundError
        When a file does not exist.
    ValueError
        Naming the file, what was found and what is expected.
    """
    tables = [_open(Path(path), dataset, columns) for path in paths]
    for table in tables:
        if len(table.shape) < 2 or min(table.shape) == 0:
            raise ValueError(f"{table.path}: shape {table.shape}, expected (rows, features...) with values")
        if table.dtype.kind not in "iuf" or table.dtype.itemsize > 8:
            raise ValueError(f"{table.path}: dtype {table.dtype}, expected an integer or a float of at most 64 bits")
        if table.shape[1:] != tables[0].shape[1:]:
            raise ValueError(
                f"{table.path}: rows of shape {table.shape[1:]}, expected {tables[0].shape[1:]} as in {tables[0].path}"
            )
    return tables


def _open(path: Path, dataset: str | None, columns: Sequence[str] | None) -> FileTable:
    if not path.is_file():
        raise FileNotFoundError(f"source {path} does not exist or is no file")
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"source {path}: expected a file that ends with one of {', '.join(_KINDS)}")
    table: FileTable = kind.open(path.absolute(), dataset, columns)
    return table


def _refuse_choices(path: Path, **choices: Any) -> None:
    for name, value in choices.items():
        if value is not None:
            raise ValueError(f"{name}={value!r}: {path} has none to choose from")


def _opened(path: Path, open_file: Any) -> Any:
    try:
        return open_file()
    except Exception as error:  # each library has errors of its own for files that are damaged
        raise ValueError(f"{path} cannot be read: {error}") from error


def _mapped(path: Path) -> Block:
    mapped: Block = _opened(path, lambda: np.load(path, mmap_mode="r", allow_pickle=False))
    return mapped


def _fits(kinds: Sequence[Any]) -> bool:
    """Whether columns of these Arrow types are rows: numbers side by side, or one list of numbers."""
    import pyarrow.types as at

    def number(kind: Any) -> bool:
        return bool(at.is_integer(kind) or at.is_floating(kind))

    def numbers(kind: Any) -> bool:
        lists = at.is_list(kind) or at.is_large_list(kind) or at.is_fixed_size_list(kind)
        return bool(lists and number(kind.value_type))

    return all(number(kind) for kind in kinds) or (len(kinds) == 1 and numbers(kinds[0]))


def _rows_of(path: Path, start: int, part: Any, names: Sequence[str], width: int | None) -> Block:
    """Rows (n, D) of an Arrow table whose first row is row `start` of the file."""
    for name in names:
        if part[name].null_count:
            row = start + int(np.argmax(part[name].is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(f"{path}: row {row} has no value in column {name!r}")
    column = part[names[0]]
    if not hasattr(column.type, "value_type"):
        return np.stack([part[name].to_numpy(zero_copy_only=False) for name in names], axis=1)
    lists = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    lengths = _lengths(lists)
    width = int(lengths[0]) if width is None else width
    if (lengths != width).any():
        row = int(np.argmax(lengths != width))
        raise ValueError(f"{path}: row {start + row} has {lengths[row]} values in {names[0]!r}, expected {width}")
    values = lists.flatten()
    if values.null_count:
        row = start + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // width
        raise ValueError(f"{path}: row {row} has a gap in column {names[0]!r}")
    flat: Block = values.to_numpy(zero_copy_only=False)
    return flat.reshape(len(lists), width)


def _lengths(lists: Any) -> npt.NDArray[np.int64]:
    fixed = getattr(lists.type, "list_size", None)
    if fixed is not None:
        return np.full(len(lists), fixed, np.int64)
    offsets: Block = lists.offsets.to_numpy()
    return np.diff(offsets).astype(np.int64)
