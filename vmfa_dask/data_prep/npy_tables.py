"""Rows of `.npy` files. Imports `file_tables`, `tables` for its types, `source_files` and NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vmfa_dask.data_prep.file_tables import refuse_choices
from vmfa_dask.data_prep.source_files import damage_named
from vmfa_dask.data_prep.tables import Block

_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_OTHERS = {
    b"PK\3\4": "a zip archive, as from numpy.savez (.npz); save its array by numpy.save",
    b"PK\5\6": "an empty zip archive; save the array by numpy.save",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file; rename it (.h5)",
    b"PAR1": "a Parquet file; rename it (.parquet)",
    b"\x80": "a pickle; save the array by numpy.save",
}


@dataclass(frozen=True)
class NpyTable:
    """A `.npy` file, mapped into memory.

    Parameters
    ----------
    path, shape, dtypes, names
        As in `FileTable`; there is one dtype and one empty name.
    """

    path: Path
    shape: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]
    names: tuple[str, ...] = ("",)

    @classmethod
    def open(cls, path: Path, dataset: str | None, columns: Sequence[str] | None) -> NpyTable:
        """Read the header, and compare it with the size of the file.

        Parameters
        ----------
        path, dataset, columns
            As in `table_sources.open_tables`; there is nothing to choose from.

        Raises
        ------
        ValueError
            If the file is damaged, cut short or of another format, or a choice is given.
        """
        refuse_choices(path, dataset=dataset, columns=columns)
        array = _mapped(path)
        return cls(path, array.shape, (array.dtype,))

    def pieces(self, start: int, stop: int) -> Iterator[Block]:
        """Map rows ``start:stop``, as in `FileTable.pieces`; they are read from the disk when they are used."""
        yield _mapped(self.path)[start:stop]


def _mapped(path: Path) -> Block:
    with damage_named(path):
        _require_size(path)
        mapped: Block = np.lib.format.open_memmap(path, mode="r")
    return mapped


def _require_size(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(8)
        for magic, meaning in _OTHERS.items():
            if head.startswith(magic):
                raise ValueError(f"{path} cannot be read: it is {meaning}")
        file.seek(0)
        reader = _READERS.get(np.lib.format.read_magic(file))
        if reader is None:
            return  # only dtypes with names are written in other versions, and they are refused
        shape, _, dtype = reader(file)
        start, size = file.tell(), file.seek(0, 2)
    if dtype.hasobject or dtype.itemsize == 0:
        return
    if min(shape, default=0) < 0:
        raise ValueError(f"{path} is damaged: its header states the shape {shape}")
    expected = start + math.prod(shape) * dtype.itemsize
    if size == expected:
        return
    held = f"{path} has {size:,} bytes, its header states {expected:,} for the shape {shape}"
    if size > expected:
        raise ValueError(f"{held}; it has another array after the first, or is damaged")
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    raise ValueError(f"{held}; it is cut short and holds {(size - start) // row_bytes} whole rows")
