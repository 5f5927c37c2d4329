"""All rules for dtypes of files: which are read, how they are joined to one, and which values that one cannot hold.

Nothing is rounded unless the caller states the dtype, and nothing ever wraps around. Imports `file_tables`, `tables`
for its types, and NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vmfa_dask.data_prep.file_tables import FileTable
from vmfa_dask.data_prep.tables import Block

_EXPECTED = "an integer or a float of at most 64 bits"


@dataclass(frozen=True)
class Target:
    """The dtype of a store, and how it came about.

    Parameters
    ----------
    dtype : dtype
        An integer or a float in native byte order.
    stated : bool
        Whether the caller chose it. Numbers are then rounded to it, and otherwise held exactly.
    partners : tuple of (str, str)
        Pairs of a dtype of a file that `dtype` does not hold exactly, and the file or column that made it necessary.
    """

    dtype: np.dtype[Any]
    stated: bool
    partners: tuple[tuple[str, str], ...] = ()


def stated_dtype(dtype: Any) -> np.dtype[Any]:
    """Check the dtype that a caller asks for.

    Parameters
    ----------
    dtype : dtype_like
        As the caller gave it.

    Returns
    -------
    dtype
        In native byte order.

    Raises
    ------
    ValueError
        If a store of rows cannot have this dtype.
    """
    try:
        native: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    except TypeError as error:
        raise ValueError(f"dtype={dtype!r}: expected {_EXPECTED}") from error
    if not _is_read(native):
        raise ValueError(f"dtype={dtype!r}: expected {_EXPECTED}")
    return native


def target_of(tables: Sequence[FileTable], stated: np.dtype[Any] | None) -> tuple[Target, list[str]]:
    """Join the dtypes of files to that of the store.

    Parameters
    ----------
    tables : sequence of FileTable
        All files.
    stated : dtype, optional
        The dtype that the caller chose.

    Returns
    -------
    target : Target
        The dtype of the store.
    notices : list of str
        One per dtype of a file that the dtype of the store does not hold exactly.

    Raises
    ------
    ValueError
        Naming the file, and the column, of a dtype that cannot be read.
    """
    first = _first_of_each(tables, stated is not None)
    if stated is not None:
        return Target(stated, True), []
    joined = np.result_type(*first)
    partners, notices = [], []
    for dtype, name in first.items():
        if _holds(joined, dtype):
            continue
        # The partner is a dtype whose join with this one loses digits; there is one, or the join of all would be exact.
        other = next(d for d in first if not _holds(np.result_type(d, dtype), dtype))
        partners.append((dtype.str, f"{first[other]} ({other})"))
        notices.append(
            f"{name} ({dtype}) and {first[other]} ({other}) are joined as {joined}, which does not hold every {dtype}; "
            "a value that would be rounded ends the call, unless the dtype is stated"
        )
    return Target(joined, False, tuple(partners)), notices


def _first_of_each(tables: Sequence[FileTable], stated: bool) -> dict[np.dtype[Any], str]:
    """Dtypes in native byte order, and the first file, or the first column of a file, of each."""
    first: dict[np.dtype[Any], str] = {}
    for table in tables:
        for dtype, name in zip(table.dtypes, table.names, strict=True):
            native = dtype.newbyteorder("=")
            if native in first:
                continue
            label = named(table.path, name)
            if not _is_read(native) and not (stated and dtype.kind in "bf"):
                hint = ""
                if dtype.kind in "bf":
                    example = "uint8" if dtype.kind == "b" else "float64"
                    hint = f"; dtype='{example}' (--dtype {example}) converts it"
                raise ValueError(f"{label}: dtype {dtype}, expected {_EXPECTED}{hint}")
            first[native] = label
    return first


def _is_read(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iuf" and dtype.itemsize <= 8


def _holds(target: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Whether a dtype holds every value of another one exactly (NumPy calls int64 to float64 safe)."""
    if target.kind == "f" and dtype.kind in "iu":
        return 8 * dtype.itemsize - (dtype.kind == "i") <= np.finfo(target).nmant + 1
    return bool(np.can_cast(dtype, target, "safe"))


def named(path: Path, column: str) -> str:
    """Name a file, or a column of a file, as errors do.

    Parameters
    ----------
    path : path
        The file.
    column : str
        One of its columns; empty for the file itself.

    Returns
    -------
    str
        Such as ``"a.parquet, column 'x'"``.
    """
    return f"{path}, column {column!r}" if column else str(path)


@dataclass(frozen=True)
class ConvertedTable:
    """Rows of a file in the dtype of the store; values that it cannot hold are refused.

    Parameters
    ----------
    source : FileTable
        The same rows in the dtypes of their file, as one array or column by column.
    target : Target
        The dtype of the store, and whether values may be rounded to it.
    allow_nonfinite : bool
        Whether NaN and infinity are kept; otherwise they are refused like values that the dtype cannot hold, with file
        and row.
    """

    source: FileTable
    target: Target
    allow_nonfinite: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, features...)."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the store."""
        return self.target.dtype

    def read(self, start: int, stop: int) -> Block:
        """Read and convert rows ``start:stop``, as in `tables.Table.read`.

        Raises
        ------
        ValueError
            Naming file and row: if a value is missing, not finite or not held by the dtype; if the file is damaged.
        """
        rows: Block = np.empty((stop - start, *self.shape[1:]), self.dtype)
        by_column = self.source.names != ("",)
        for k, (name, piece) in enumerate(zip(self.source.names, self.source.pieces(start, stop), strict=True)):
            converted = rows[:, k] if by_column else rows
            if piece.shape != converted.shape:
                raise ValueError(
                    f"{self.source.path}: values of shape {piece.shape} where its header states {converted.shape}, "
                    f"from row {start} on; the file is damaged"
                )
            self._convert(piece, converted, name, start)
        if not self.allow_nonfinite and any(dtype.kind == "f" for dtype in self.source.dtypes):
            self._require_finite(rows, start)
        return rows

    def _convert(self, values: Block, converted: Block, name: str, start: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            converted[...] = values
        if _holds(self.dtype, values.dtype):
            return
        lost = _lost(values, converted, rounding=self.target.stated)
        if lost.any():
            where = np.unravel_index(int(np.argmax(lost)), lost.shape)
            self._refuse(values[where], named(self.source.path, name), start + int(where[0]), values.dtype)

    def _refuse(self, value: Any, label: str, row: int, dtype: np.dtype[Any]) -> None:
        partner = dict(self.target.partners).get(dtype.newbyteorder("=").str)
        problem = f"{label}: row {row} holds {value}, which {self.dtype} does not hold"
        if partner is None:
            raise ValueError(f"{problem}; state a dtype that does")
        raise ValueError(
            f"{problem} exactly; it is joined with {partner}. State dtype='{self.dtype}' (--dtype {self.dtype}) to "
            "round"
        )

    def _require_finite(self, rows: Block, start: int) -> None:
        finite = np.isfinite(rows).reshape(len(rows), -1)
        if finite.all():
            return
        bad = ~finite.all(axis=1)
        row = int(np.argmax(bad))
        feature = int(np.argmin(finite[row]))
        names = self.source.names
        label = repr(names[feature]) if names != ("",) else f"feature {feature}"
        raise ValueError(
            f"{self.source.path}: row {start + row} holds {rows[row].flat[feature]} in {label} "
            f"({np.count_nonzero(bad)} of the rows {start} to {start + len(rows) - 1} hold NaN or infinity), which "
            "fits refuse; leave such rows out, or keep them with allow_nonfinite=True (--allow-nonfinite)"
        )


def _lost(values: Block, converted: Block, rounding: bool) -> npt.NDArray[np.bool_]:
    """Which values the new dtype does not hold: exactly or, with `rounding`, at all."""
    if converted.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            overflowed = np.isinf(converted) & (np.isfinite(values) if values.dtype.kind == "f" else True)
            if rounding or values.dtype.kind == "f":
                return overflowed
            # The largest whole numbers are rounded up to a power of two, which cannot be converted back.
            back = converted.astype(values.dtype)
            rounded: npt.NDArray[np.bool_] = (converted >= float(np.iinfo(values.dtype).max)) | (back != values)
            return rounded | overflowed
    limits = np.iinfo(converted.dtype)
    if values.dtype.kind == "f":
        wide = values.astype(np.result_type(values.dtype, np.float64), copy=False)
        inside = (wide >= float(limits.min)) & (wide < float(limits.max + 1)) & (np.floor(wide) == wide)
    else:
        inside = (values >= limits.min) & (values <= limits.max)
    lost: npt.NDArray[np.bool_] = ~inside
    return lost
