"""Data frames of pandas and of Dask as tables of numbers: all columns in their order, without the index.

Neither library is imported: methods of the frame are enough. May import: numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_NAMES = 10


def table_of_pandas(label: str, frame: Any) -> NDArray[Any]:
    """The columns of a frame of pandas side by side.

    Parameters
    ----------
    label : str
        Name of the argument, for messages.
    frame : pandas.DataFrame
        Columns of integers or floats, nullable ones included.

    Returns
    -------
    (n, columns) ndarray
        In the smallest dtype that holds all columns.

    Raises
    ------
    ValueError
        Naming the columns that hold no numbers, have missing values, or would lose digits beside the others.
    """
    return _side_by_side(label, frame, _common_dtype(label, frame))


def table_of_dask(label: str, frame: Any) -> Any:
    """The columns of a frame of Dask side by side, partition by partition.

    The rows of each partition are counted here. What partitions hold shows when they are computed: missing values are
    refused there.

    Parameters
    ----------
    label : str
        Name of the argument, for messages.
    frame : dask.dataframe.DataFrame
        Columns of integers or floats, nullable ones included.

    Returns
    -------
    (n, columns) dask.array.Array
        In the smallest dtype that holds all columns; sizes of chunks are known.

    Raises
    ------
    ValueError
        For a single column, and naming the columns that hold no numbers.
    """
    if frame.ndim != 2:
        raise ValueError(f"{label}: a single column {frame.name!r}; use to_frame() for rows of one feature")
    common = _common_dtype(label, frame)
    lengths = tuple(int(n) for n in frame.map_partitions(len).compute())
    dtypes = [(name, common) for name in frame.columns]
    return frame.map_partitions(_plain_partition, label, common.str, meta=dtypes).to_dask_array(lengths=lengths)


def _plain_partition(frame: Any, label: str, common: str) -> Any:
    """A partition in one dtype; the type of frame stays."""
    values = _side_by_side(label, frame, np.dtype(common))
    return type(frame)(values, index=frame.index, columns=frame.columns)


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
    dtypes = [number for _, dtype in columns if (number := _number_dtype(dtype)) is not None]
    return np.result_type(*dtypes) if dtypes else np.dtype(np.float64)


def _number_dtype(dtype: Any) -> np.dtype[Any] | None:
    """NumPy's dtype of the values of a column, None where they are no numbers.

    Types of pandas (nullable, of Arrow, sparse) say what they hold.
    """
    if getattr(dtype, "kind", "O") not in "iuf":
        return None
    number = dtype if isinstance(dtype, np.dtype) else getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", None))
    if not isinstance(number, np.dtype) or number.kind not in "iuf" or number.itemsize > 8:
        return None
    return number.newbyteorder("=")


def _side_by_side(label: str, frame: Any, common: np.dtype[Any]) -> NDArray[Any]:
    table = np.empty((len(frame), len(frame.columns)), common)
    for k, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        column_label, column, number = f"{label}: column {name!r} ({dtype})", frame.iloc[:, k], _number_dtype(dtype)
        if number is None:
            raise ValueError(f"{column_label} holds no numbers in some partition; convert it before")
        n_missing = 0 if isinstance(dtype, np.dtype) else int(column.isna().sum())
        if n_missing:
            raise ValueError(f"{column_label} has {n_missing} missing values; fill them or leave their rows out")
        values = column.to_numpy(number)
        _refuse_rounding(column_label, values, common)
        table[:, k] = values
    return table


def _refuse_rounding(label: str, values: NDArray[Any], common: np.dtype[Any]) -> None:
    """Refuse whole numbers with more digits than the floats of the table have."""
    if values.dtype.kind not in "iu" or common.kind != "f" or not values.size:
        return
    limit = 2 ** (np.finfo(common).nmant + 1)
    if max(-int(values.min()), int(values.max())) > limit:
        raise ValueError(
            f"{label} holds whole numbers beyond {limit}, which {common} does not hold and the other columns need; "
            "leave it out or convert it"
        )
