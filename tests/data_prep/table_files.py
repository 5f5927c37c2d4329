"""Small files of rows to test with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from vmfa_dask.data_prep import shards

FORMATS = ("npy", "h5", "parquet", "lists")


def write_rows(folder: Path, name: str, file_format: str, rows: npt.NDArray[Any]) -> Path:
    """Write rows (n, D) as a file of a format; Parquet holds them in columns x0, x1 ... or in one of lists."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{'parquet' if file_format == 'lists' else file_format}"
    if file_format == "npy":
        np.save(path, rows)
    elif file_format == "h5":
        with h5py.File(path, "w") as file:
            file["rows"] = rows
    else:
        native = rows.astype(rows.dtype.newbyteorder("="))
        columns: dict[str, Any] = {f"x{k}": native[:, k] for k in range(native.shape[1])}
        if file_format == "lists":
            offsets = np.arange(len(rows) + 1) * rows.shape[1]
            columns = {"v": pa.ListArray.from_arrays(offsets, pa.array(native.ravel()))}
        pq.write_table(pa.table(columns), path, row_group_size=7)
    return path


@contextmanager
def disk_full_after(n_shards: int) -> Iterator[list[shards.Shard]]:
    """Let writing fail after so many shards; yields those that were written."""
    written: list[shards.Shard] = []
    write_shard = shards.write_shard

    def write(shard: shards.Shard) -> None:
        if len(written) == n_shards:
            raise OSError("the disk is full")
        written.append(shard)
        write_shard(shard)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shards, "write_shard", write)
        yield written


def stored(path: Path) -> npt.NDArray[Any]:
    """Return all rows of a store."""
    return np.asarray(zarr.open_array(path, mode="r")[:])
