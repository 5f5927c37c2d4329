"""Data frames of pandas and of Dask as tables of numbers: all columns in their order, without the index.

Neither library is imported: what is needed are methods of the frame. May import: numpy, tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.tables import check_table

_MOST_NAMES = 10


def table_of_pandas(label: str, frame: Any) -> NDArray[Any]:
    """The columns of a frame of pandas in the smallest dtype that holds all of them, (n, columns).

    Raises
    ------
    ValueError
        Naming the columns that hold no numbers, have missing values, or would lose digits beside the others.
    """
    common = _common_dtype(label, frame)
    check_table(label, (len(frame), len(frame.columns)), common)
    return _filled(label, frame, common)


def table_of_dask(label: str, frame: Any) -> Any:
    """The Dask array of a frame of Dask; its sizes are found by counting the rows of each partition.

    Raises
    ------
    ValueError
        Naming the columns that hold no numbers. What partitions hold is found where they are computed.
    """
    if frame.ndim != 2:
        raise ValueError(f"{label}: a single column {frame.name!r}; use to_frame() for rows of one feature")
    common = _common_dtype(label, frame)
    lengths = tuple(int(n) for n in frame.map_partitions(len).compute())
    check_table(label, (sum(lengths), len(frame.columns)), common)
    plain = frame.map_partitions(_plain_partition, label, common.str, meta=frame._meta.astype(common))
    return plain.to_dask_array(lengths=lengths)


def _plain_partition(frame: Any, label: str, common: str) -> Any:
    """A frame of one dtype; the type of frame that came in."""
    return type(frame)(_filled(label, frame, np.dtype(common)), index=frame.index, columns=frame.columns)


def _common_dtype(label: str, frame: Any) -> np.dtype[Any]:
    """The dtype in which all columns of a frame fit together."""
    columns = list(zip(frame.columns, frame.dtypes, strict=True))
    others = [f"{name!r} ({dtype})" for name, dtype in columns if _number_dtype(dtype) is None]
    if others:
        more = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
        raise ValueError(
            f"{label}: the columns {', '.join(others[:_MOST_NAMES])}{more} hold no numbers that can be trained on; "
            "expected integers or floats of at most 64 bits: leave these columns out or convert them"
        )
    numbers = [found for _, dtype in columns if (found := _number_dtype(dtype)) is not None]
    return np.result_type(*numbers) if numbers else np.dtype(np.float64)


def _number_dtype(dtype: Any) -> np.dtype[Any] | None:
    """NumPy's dtype of the values of a column, None where they are no numbers.

    Types of pandas (nullable, of Arrow, sparse) say what they hold.
    """
    if getattr(dtype, "kind", "O") not in "iuf":
        return None
    found = dtype if isinstance(dtype, np.dtype) else getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", None))
    if not isinstance(found, np.dtype) or found.kind not in "iuf" or found.itemsize > 8:
        return None
    return found.newbyteorder("=")


def _filled(label: str, frame: Any, common: np.dtype[Any]) -> NDArray[Any]:
    """The columns side by side."""
    table = np.empty((len(frame), len(frame.columns)), common)
    for k, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        where, column, found = f"{label}: column {name!r} ({dtype})", frame.iloc[:, k], _number_dtype(dtype)
        if found is None:
            raise ValueError(f"{where} holds no numbers in some partition; convert it before")
        missing = 0 if isinstance(dtype, np.dtype) else int(column.isna().sum())
        if missing:
            raise ValueError(f"{where} has {missing} missing values; fill them or leave their rows out")
        values = column.to_numpy(found)
        _refuse_rounding(where, values, common)
        table[:, k] = values
    return table


def _refuse_rounding(where: str, values: NDArray[Any], common: np.dtype[Any]) -> None:
    """Refuse whole numbers with more digits than the floats of the table have."""
    if values.dtype.kind not in "iu" or common.kind != "f" or not values.size:
        return
    limit = 2 ** (np.finfo(common).nmant + 1)
    if max(-int(values.min()), int(values.max())) > limit:
        raise ValueError(
            f"{where} holds whole numbers beyond {limit}, which {common} does not hold and the other columns need; "
            "leave it out or convert it"
        )
