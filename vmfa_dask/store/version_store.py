"""Storage of a run's versions (parameters, graphs, posteriors) in a place that all its processes can see.

A block is written once, and appears complete. `Versions` is what all such storages share; `ZarrStorage` holds versions
that must last, `store.exchange.ExchangeFolder` those that only travel between processes. May import: addresses,
numpy, zarr, store.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import zarr
from numpy.typing import NDArray
from zarr.errors import ContainsGroupError

from vmfa_dask.addresses import Address, version_folder
from vmfa_dask.store.arrays import describe, read_array, read_group, write_array
from vmfa_dask.store.folder_place import PARTIAL
from vmfa_dask.store.places import Place
from vmfa_dask.store.strict import digest

Arrays = Mapping[str, NDArray[Any]]
_NAMES = "arrays"
# Names of dimensions, so that xarray opens the versions of a run.
_DIMENSIONS = {
    "weights": ("component",),
    "means": ("component", "feature"),
    "loadings": ("component", "factor", "feature"),
    "noise_variances": ("component", "feature"),
    "neighbors": ("component", "neighbor"),
    "components": ("row", "kept"),
}

_NUMBER = re.compile(r"\d{6}")
# Files of a block, of a version, and of all versions; names that end in a slash are folders.
_BLOCK = rf"(zarr\.json|[^/]+/(zarr\.json|c(/\d+)*/?)?|(.*/)?[^/]+{PARTIAL})?"
# How the part of a version is called: by its address, or by its number in the folder of a run.
_PART = (
    r"((group-\d{5}-)?components-\d{5}|group-\d{5}(-rows-\d{5})?|rows-\d{5}-cells-\d{5}|(cells|numbers)-of-group-\d{5}|"
    r"shared-noise|splits|survey|seeds|cells|order|\d{5})"
)
_VERSION = rf"(zarr\.json|[^/]+{PARTIAL}|{_PART}({PARTIAL})?/{_BLOCK})?"
_FILES_OF_VERSION = re.compile(_VERSION)
FILES_OF_VERSIONS = re.compile(rf"zarr\.json|[^/]+{PARTIAL}|[^/]+/(zarr\.json|[^/]+{PARTIAL}|\d{{6}}/{_VERSION})?")
# Those of them that killed processes have left half-written.
PARTS_OF_VERSIONS = re.compile(rf"([^/]+/)?(\d{{6}}/)?[^/]+{PARTIAL}|[^/]+/\d{{6}}/{_PART}{PARTIAL}/.*")


def digest_of(arrays: Arrays) -> str:
    """Digest by which a block is recognised.

    Parameters
    ----------
    arrays : mapping of str to array
        Arrays of the block.

    Returns
    -------
    str
        Hash of their names, dtypes, shapes and checksums, in hexadecimal.
    """
    return digest(describe(arrays))


class Versions:
    """Blocks, that is named arrays, by address; subclasses decide how a block is stored.

    Parameters
    ----------
    place : Place
        Where they are stored.
    """

    def __init__(self, place: Place) -> None:
        self.place = place

    @property
    def maps_memory(self) -> bool:
        """Whether blocks of other processes are mapped from the memory of this machine."""
        return False

    @property
    def shared(self) -> Any:
        """Arrays that all processes map, as `run.storage.SharedArrays`; None where there are none."""
        return None

    @property
    def path(self) -> str:
        """Folder or URL."""
        return self.place.path

    def free_bytes(self) -> int | None:
        """Bytes that can still be written; None where this is unknown."""
        return self.place.free_bytes()

    def name_of(self, address: Address) -> str:
        """Path of a block.

        Parameters
        ----------
        address : Address
            Its address.

        Returns
        -------
        str
            Path relative to the place.
        """
        return address.name

    def _write(self, kind: str, target: Any, arrays: Arrays) -> None:
        raise NotImplementedError

    def _read(self, name: str) -> Arrays:
        raise NotImplementedError

    def write(self, address: Address, arrays: Arrays) -> None:
        """Write a block; it appears complete, and writing it a second time changes nothing.

        Parameters
        ----------
        address : Address
            Address of the block.
        arrays : mapping of str to array
            Arrays by name.

        Raises
        ------
        OSError
            If it cannot be written; the message names the path.
        """
        name = self.name_of(address)
        if not self.place.holds(name):
            self.place.publish(name, lambda target: self._write(address.kind, target, arrays))

    def read(self, address: Address) -> Arrays:
        """Read a block.

        Parameters
        ----------
        address : Address
            Address of the block.

        Returns
        -------
        mapping of str to array
            Read-only arrays by name.

        Raises
        ------
        KeyError
            If it was never written.
        ValueError
            If it is damaged, where the storage can tell.
        """
        return self._read(self.name_of(address))

    def discard(self, kind: str, version: int) -> None:
        """Remove a version; nothing happens if it does not exist.

        Parameters
        ----------
        kind : str
            What the version holds, such as "parameters".
        version : int
            Number of the version.
        """
        self.place.remove(version_folder(kind, version))


class ZarrStorage(Versions):
    """Versions that must last: Zarr groups with checksums. Damaged and incomplete blocks are refused.

    Parameters
    ----------
    place : Place
        Where they are stored.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._groups: set[str] = set()  # that this process knows to exist, and to be durable

    def write(self, address: Address, arrays: Arrays) -> None:
        """Write a block, and the groups above it, through which xarray finds it.

        Parameters
        ----------
        address : Address
            Address of the block.
        arrays : mapping of str to array
            Arrays by name.

        Raises
        ------
        OSError
            If it cannot be written; the message names the path.
        """
        for name in {"", address.kind, address.folder} - self._groups:
            if read_group(self.place, name) is None:
                with self.place.writing(name), suppress(ContainsGroupError):  # another task has just created it
                    zarr.open_group(self.place.target(name), mode="a", zarr_format=3)
            with self.place.writing(name):
                self.place.keep(f"{name}/zarr.json" if name else "zarr.json")
            self._groups.add(name)
        super().write(address, arrays)

    def discard(self, kind: str, version: int) -> None:
        """Remove a version with its group, but no files that are not part of it.

        Parameters
        ----------
        kind : str
            What the version holds, such as "parameters".
        version : int
            Number of the version.
        """
        self.place.remove(version_folder(kind, version), _FILES_OF_VERSION)
        self._groups.discard(version_folder(kind, version))

    def _write(self, kind: str, target: Any, arrays: Arrays) -> None:
        group = zarr.open_group(target, mode="w")
        group.attrs[_NAMES] = sorted(arrays)
        for name, array in arrays.items():
            dimensions: tuple[str, ...] = _DIMENSIONS.get(name, ())
            if len(dimensions) != array.ndim:
                dimensions = tuple(f"{name}_{axis}" for axis in range(array.ndim))
            write_array(group, name, array, dimensions)

    def _read(self, name: str) -> Arrays:
        attributes = read_group(self.place, name)
        if attributes is None:
            raise KeyError(f"{self.place.path}/{name}")
        # Early runs of format 1 do not list their arrays.
        names = attributes.get(_NAMES) or sorted(self.place.children(name))
        if not isinstance(names, list) or not all(isinstance(array, str) for array in names):
            raise ValueError(f"{self.place.path}/{name}: damaged: {_NAMES} are {names!r:.60}, expected a list of names")
        return {array: read_array(self.place, name, array) for array in names}

    def keep_only(self, needed: Iterable[tuple[str, int]]) -> None:
        """Discard the other versions of the kinds that are named.

        Parameters
        ----------
        needed : iterable of (str, int)
            Kind and number of each version to keep.
        """
        wanted = {(kind, f"{version:06d}") for kind, version in needed}
        for kind in {kind for kind, _ in wanted}:
            for version in self.place.children(kind):
                if _NUMBER.fullmatch(version) and (kind, version) not in wanted:
                    self.discard(kind, int(version))


class NumberedStorage(ZarrStorage):
    """Versions in the folder of a run, where the blocks of a version are numbered (`Address.number`).

    Parameters
    ----------
    place : Place
        Where they are stored.
    n_blocks : int
        Number of component blocks of the run.
    """

    def __init__(self, place: Place, n_blocks: int) -> None:
        super().__init__(place)
        self._n_blocks = n_blocks

    def name_of(self, address: Address) -> str:
        """Path of a block, with its number as the last part.

        Parameters
        ----------
        address : Address
            Its address.

        Returns
        -------
        str
            Path relative to the place.
        """
        return f"{address.folder}/{address.number(self._n_blocks):05d}"
