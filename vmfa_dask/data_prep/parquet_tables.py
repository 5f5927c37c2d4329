"""Rows of Parquet files. Imports `file_tables`, `tables` for its types, `source_files`, NumPy and pyarrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vmfa_dask.data_prep.file_tables import listed, refuse_choices
from vmfa_dask.data_prep.source_files import damage_named
from vmfa_dask.data_prep.tables import Block

# Names that pandas and Dask give to an unnamed index; other programs keep the column but drop the metadata.
_INDEX_NAMES = re.compile(r"__index_level_\d+__|__null_dask_index__")


@dataclass(frozen=True)
class ParquetTable:
    """Columns of a Parquet file: one column of lists of equal length, or numeric columns side by side.

    Parameters
    ----------
    path : path
        The file, opened anew for each range of rows.
    columns : tuple of str
        Names of the columns that are read.
    left_out : tuple of str
        Names of columns that hold the index of a frame and are not read.
    lists : bool
        Whether the only column holds lists.
    shape : (int, int)
        Rows and features.
    dtypes : tuple of dtype
        The dtype of the values of the lists, or of each column.
    row_groups : tuple of int
        First row of each row group of the file, and the number of rows.
    """

    path: Path
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    lists: bool
    shape: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]
    row_groups: tuple[int, ...]

    @classmethod
    def open(cls, path: Path, dataset: str | None, columns: Sequence[str] | None) -> ParquetTable:
        """Read the footer, and one row to learn the length of the lists.

        Parameters
        ----------
        path, dataset, columns
            As in `table_sources.open_tables`; there is no data set to choose.

        Raises
        ------
        ValueError
            If a column is unknown, not numeric or has rows without a value; if the file is damaged.
        """
        refuse_choices(path, dataset=dataset)
        with damage_named(path), _file(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            left_out = () if columns else _index_columns(schema)
            names = tuple(columns) if columns else tuple(name for name in schema.names if name not in left_out)
            _require_columns(path, schema, names)
            lists = len(names) == 1 and _is_list(schema.field(names[0]).type)
            kinds = [schema.field(names[0]).type.value_type] if lists else [schema.field(name).type for name in names]
            dtypes = tuple(np.dtype(kind.to_pandas_dtype()) for kind in kinds)
            ends = _ends(path, metadata)
            width = len(names)
            if lists:
                first = next(file.iter_batches(1, columns=list(names)), None)
                width = 0 if first is None else _unlisted(path, 0, first[names[0]], names[0], None).shape[1]
            else:
                _require_columns_begin(file, names, ends)
                _refuse_gaps(path, file, names, ends)
        row_groups = tuple(int(end) for end in ends)
        return cls(path, names, left_out, lists, (row_groups[-1], width), dtypes, row_groups)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns; a single empty name for lists."""
        return ("",) if self.lists else self.columns

    def in_order_of(self, other: ParquetTable) -> ParquetTable:
        """Reorder the columns.

        Parameters
        ----------
        other : ParquetTable
            The table whose order is taken.

        Returns
        -------
        ParquetTable
            This table with its columns in that order.

        Raises
        ------
        ValueError
            If the tables do not have the same columns.
        """
        mine, theirs = set(self.columns), set(other.columns)
        if mine != theirs:
            sides = [(self, mine - theirs, other), (other, theirs - mine, self)]
            texts = [f"{a.path} has {listed(sorted(more), 5)}, which {b.path} lacks" for a, more, b in sides if more]
            raise ValueError(f"{'; '.join(texts)}; choose columns that all files have")
        order = [self.columns.index(name) for name in other.columns]
        return replace(self, columns=other.columns, dtypes=tuple(self.dtypes[k] for k in order))

    def pieces(self, start: int, stop: int) -> Iterator[Block]:
        """Read rows ``start:stop`` from their row groups, as in `FileTable.pieces`.

        Raises
        ------
        ValueError
            If a row has no value, or a list of another length; if the file is damaged.
        """
        groups = [g for g in range(len(self.row_groups) - 1) if self._overlaps(g, start, stop)]
        offset = self.row_groups[groups[0]]
        with damage_named(self.path), _file(self.path) as file:
            table = file.read_row_groups(groups, columns=list(self.columns), use_threads=False)
        part = table.slice(start - offset, stop - start)
        for name in self.columns:
            column = part[name]
            if self.lists:
                yield _unlisted(self.path, start, column, name, self.shape[1])
            else:
                _refuse_nulls(self.path, start, column, name)
                yield column.to_numpy()

    def _overlaps(self, group: int, start: int, stop: int) -> bool:
        return self.row_groups[group] < stop and self.row_groups[group + 1] > start


def _file(path: Path) -> Any:
    """Open a file; the checksums of its pages are compared if it has any."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, page_checksum_verification=True)


def _ends(path: Path, metadata: Any) -> npt.NDArray[np.int64]:
    """First row of each row group, and the number of rows; a footer that contradicts itself is refused."""
    counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    if min(counts, default=0) < 0 or sum(counts) != metadata.num_rows:
        raise ValueError(
            f"{path}: its footer states {metadata.num_rows} rows, its row groups {sum(counts)}; the file is damaged"
        )
    return np.cumsum([0, *counts])


def _require_columns_begin(file: Any, names: Sequence[str], ends: npt.NDArray[np.int64]) -> None:
    """Read a row of each row group: if a column is damaged, asking pyarrow for its statistics would abort."""
    for group in np.flatnonzero(np.diff(ends)).tolist():
        next(file.iter_batches(1, row_groups=[group], columns=list(names), use_threads=False))


def _index_columns(schema: Any) -> tuple[str, ...]:
    """Columns that hold the index of a frame: named in the metadata of pandas, or named like an index."""
    stated = (schema.pandas_metadata or {}).get("index_columns", [])
    return tuple(name for name in schema.names if name in stated or _INDEX_NAMES.fullmatch(name))


def _require_columns(path: Path, schema: Any, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise ValueError(f"{path} has the columns {listed(schema.names)}; found {unknown[0]!r}")
    if not names:
        index = f" but {listed(schema.names)}, the index of a frame; choose columns" if schema.names else ""
        raise ValueError(f"{path} has no columns{index}")
    twice = [name for name in names if schema.names.count(name) > 1]
    if twice:
        raise ValueError(f"{path} has several columns named {twice[0]!r}, expected different names")
    kinds = {name: schema.field(name).type for name in names}
    if not all(map(_is_number, kinds.values())) and not (len(names) == 1 and _is_list(kinds[names[0]])):
        others = [name for name, kind in kinds.items() if not _is_number(kind)]
        described = listed([f"{name} ({kind})" for name, kind in kinds.items()])
        raise ValueError(
            f"{path}: the columns {described} are neither one column of lists of numbers nor numeric columns, because "
            f"of {listed(others)}; choose columns that are"
        )


def _is_number(kind: Any) -> bool:
    import pyarrow.types as at

    return bool(at.is_integer(kind) or at.is_floating(kind) or at.is_boolean(kind))


def _is_list(kind: Any) -> bool:
    import pyarrow.types as at

    lists = at.is_list(kind) or at.is_large_list(kind) or at.is_fixed_size_list(kind)
    return bool(lists and _is_number(kind.value_type))


def _refuse_gaps(path: Path, file: Any, names: Sequence[str], ends: npt.NDArray[np.int64]) -> None:
    """Refuse columns whose statistics count rows without a value."""
    metadata = file.metadata
    leaves = {metadata.schema.column(k).path: k for k in range(metadata.num_columns)}
    counts = np.zeros((metadata.num_row_groups, len(names)), np.int64)
    for group in np.flatnonzero(np.diff(ends)).tolist():
        described = metadata.row_group(group)
        for k, name in enumerate(names):
            column = described.column(leaves[name])
            n_rows = int(ends[group + 1] - ends[group])
            if column.num_values != n_rows:
                raise ValueError(
                    f"{path}: row group {group} states {n_rows} rows, its column {name!r} {column.num_values} values; "
                    "the file is damaged"
                )
            counts[group, k] = column.statistics.null_count or 0 if column.statistics is not None else 0
    if counts.any():
        column = int(np.flatnonzero(counts.any(axis=0))[0])
        group, total = int(np.flatnonzero(counts[:, column])[0]), counts[:, column].sum()
        values = file.read_row_group(group, columns=[names[column]])[names[column]]
        _refuse_nulls(path, int(ends[group]), values, names[column], f"{total} of {ends[-1]} rows have none")


def _refuse_nulls(path: Path, start: int, column: Any, name: str, count: str = "") -> None:
    if column.null_count:
        row = start + int(np.argmax(column.is_null().to_numpy()))
        count = count or f"{column.null_count} of the rows {start} to {start + len(column) - 1} have none"
        raise ValueError(f"{path}: row {row} has no value in column {name!r} ({count}); leave such rows out")


def _unlisted(path: Path, start: int, column: Any, name: str, width: int | None) -> Block:
    """Rows (n, D) of a column of lists whose first row is row `start` of the file."""
    import pyarrow as pa

    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    lists = pa.concat_arrays(chunks) if len(chunks) != 1 else chunks[0]
    if lists.null_count:
        _refuse_nulls(path, start, pa.chunked_array([lists]), name)
    lengths = _lengths(lists)
    width = int(lengths[0]) if width is None else width
    if (lengths != width).any():
        row = int(np.argmax(lengths != width))
        raise ValueError(f"{path}: row {start + row} has {lengths[row]} values in {name!r}, expected {width}")
    values = lists.flatten()
    if values.null_count:
        row = start + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // width
        raise ValueError(f"{path}: row {row} has a gap in column {name!r}")
    flat: Block = values.to_numpy(zero_copy_only=False)
    return flat.reshape(len(lists), width)


def _lengths(lists: Any) -> npt.NDArray[np.int64]:
    fixed = getattr(lists.type, "list_size", None)
    if fixed is not None:
        return np.full(len(lists), fixed, np.int64)
    offsets: Block = lists.offsets.to_numpy()
    return np.diff(offsets).astype(np.int64)
