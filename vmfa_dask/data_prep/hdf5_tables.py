"""Data sets of HDF5 files. Imports `file_tables`, `tables` for its types, `source_files`, NumPy and h5py."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product, repeat
from pathlib import Path
from typing import Any

import numpy as np

from vmfa_dask.data_prep.file_tables import refuse_choices
from vmfa_dask.data_prep.source_files import damage_named
from vmfa_dask.data_prep.tables import Block

MAX_CHUNK_BYTES = 2**30
"""Largest size of a chunk, which HDF5 unpacks as a whole."""


@dataclass(frozen=True)
class Hdf5Table:
    """A data set of an HDF5 file.

    Parameters
    ----------
    dataset : str
        Name of the data set in the file, with slashes.
    fill : tuple
        Values that stand for missing ones.
    path, shape, dtypes, names
        As in `FileTable`; there is one dtype and one empty name.
    """

    path: Path
    dataset: str
    shape: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]
    fill: tuple[Any, ...] = ()
    names: tuple[str, ...] = ("",)

    @classmethod
    def open(cls, path: Path, dataset: str | None, columns: Sequence[str] | None) -> Hdf5Table:
        """Find the data set, and compare what is stored with its shape.

        Names behind soft and external links are not found.

        Parameters
        ----------
        path, dataset, columns
            As in `table_sources.open_tables`; there are no columns to choose.

        Raises
        ------
        ValueError
            If there is no such data set, it refers to other files, is packed, or is not stored completely; if the file
            is damaged.
        """
        import h5py

        refuse_choices(path, columns=columns)
        with damage_named(path), h5py.File(path, "r") as file:
            found: list[str] = []
            file.visititems(lambda name, node: found.append(name) if isinstance(node, h5py.Dataset) else None)
            name = (dataset or "").strip("/")
            if dataset is None and len(found) == 1:
                name = found[0]
            if name not in found:
                raise ValueError(
                    f"{path} holds the data sets {', '.join(map(repr, sorted(found))) or 'none'}; "
                    f"choose one, found dataset={dataset!r}"
                )
            data = file[name]
            if data.external or data.is_virtual:
                raise ValueError(f"{path}: data set {name!r} keeps its values in other files, which are not followed")
            _require_stored(path, name, data)
            return cls(path, name, data.shape or (), (data.dtype,), _fill_values(path, name, data.attrs))

    def pieces(self, start: int, stop: int) -> Iterator[Block]:
        """Read rows ``start:stop``, as in `FileTable.pieces`.

        Raises
        ------
        ValueError
            If a chunk is damaged or not stored, or a row holds the value for missing ones.
        """
        import h5py

        with damage_named(self.path), h5py.File(self.path, "r") as file:
            data = file[self.dataset]
            _require_chunks(self.path, self.dataset, data, start, stop)
            rows = np.asarray(data[start:stop])
        for value in self.fill:
            missing = (rows == value).reshape(len(rows), -1).any(axis=1)
            if missing.any():
                raise ValueError(
                    f"{self.path}: row {start + int(np.argmax(missing))} holds {value}, which data set "
                    f"{self.dataset!r} states for missing values ({np.count_nonzero(missing)} of the rows {start} to "
                    f"{stop - 1} do); leave such rows out"
                )
        yield rows


def _require_stored(path: Path, name: str, data: Any) -> None:
    """Refuse rows that were never written: HDF5 would read fill values for them."""
    if not data.shape or 0 in data.shape or data.dtype.hasobject:
        return
    stored, stated, rows = data.id.get_storage_size(), math.prod(data.shape) * data.dtype.itemsize, data.shape[0]
    if data.chunks is None:
        held = stored * rows // stated
        more = stored > stated
    else:
        chunk_bytes = math.prod(data.chunks) * data.dtype.itemsize
        if chunk_bytes > MAX_CHUNK_BYTES:
            raise ValueError(
                f"{path}: data set {name!r} has chunks {data.chunks} of {chunk_bytes:,} bytes, expected "
                f"{MAX_CHUNK_BYTES:,} at most; h5repack writes it in smaller ones"
            )
        per_row = math.prod(-(-n // c) for n, c in zip(data.shape[1:], data.chunks[1:], strict=True))
        needed, found = -(-rows // data.chunks[0]) * per_row, data.id.get_num_chunks()
        held = rows if found >= needed else found // per_row * data.chunks[0]
        more = found > needed
    if more:
        raise ValueError(f"{path}: data set {name!r} states {rows} rows, and more are stored; the file is damaged")
    if held < rows:
        raise ValueError(
            f"{path}: data set {name!r} states {rows} rows, of which at most {held} are stored; HDF5 would read fill "
            "values for the others. Write them, or make the data set as long as what it holds"
        )


def _require_chunks(path: Path, name: str, data: Any, start: int, stop: int) -> None:
    """Refuse chunks that HDF5 does not find: if its index is damaged, it reads fill values."""
    if data.chunks is None:
        return
    first = start - start % data.chunks[0]
    axes = (range(first, stop, data.chunks[0]), *map(range, repeat(0), data.shape[1:], data.chunks[1:]))
    for offset in product(*axes):
        try:
            data.id.read_direct_chunk(offset)  # uses the index as a reader does, unlike calls that list chunks
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"{path}: data set {name!r} has no chunk at {offset}, for which HDF5 would read fill values; the file "
                f"is damaged, or was not written to its end ({error})"
            ) from error


def _fill_values(path: Path, name: str, attributes: Any) -> tuple[Any, ...]:
    """Values that stand for missing ones by the conventions of netCDF; packed values are refused."""
    for packing, neutral in {"scale_factor": 1, "add_offset": 0}.items():
        if packing in attributes and np.any(np.asarray(attributes[packing]) != neutral):
            raise ValueError(
                f"{path}: data set {name!r} holds packed values ({packing}={attributes[packing]}), expected plain "
                "values; open the file with xarray, which unpacks them, and save it again"
            )
    stated = [np.ravel(attributes[key]) for key in ("_FillValue", "missing_value") if key in attributes]
    values = [value for array in stated if array.dtype.kind in "iuf" for value in array.tolist()]
    return tuple(dict.fromkeys(value for value in values if value == value))
