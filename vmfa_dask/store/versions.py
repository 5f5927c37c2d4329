"""Versions of a run in a place that every process of the run can see: written once, and whole.

`Versions` is what all such places have in common, `ZarrStorage` the one for what is to last; versions in work lie in an
`ExchangeFolder` (`store.exchange`). May import: numpy, zarr, store.
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
from vmfa_dask.store.places import PARTIAL, Place
from vmfa_dask.store.strict import digest

Arrays = Mapping[str, NDArray[Any]]
_NAMES = "arrays"
# Names of axes, so that xarray opens what a run keeps.
_DIMENSIONS = {
    "weights": ("component",),
    "means": ("component", "feature"),
    "loadings": ("component", "factor", "feature"),
    "noise_variances": ("component", "feature"),
    "neighbors": ("component", "neighbor"),
    "components": ("row", "kept"),
}

_NUMBER = re.compile(r"\d{6}")
# Files of a block, those of a version, and those of all versions; names that end in a slash are folders.
_BLOCK = rf"(zarr\.json|[^/]+/(zarr\.json|c(/\d+)*/?)?|(.*/)?[^/]+{PARTIAL})?"
_PART = r"((group-\d{5}-)?components-\d{5}|group-\d{5}|shared-noise|splits|survey|seeds|\d{5})"
_VERSION = rf"(zarr\.json|[^/]+{PARTIAL}|{_PART}({PARTIAL})?/{_BLOCK})?"
_FILES_OF_VERSION = re.compile(_VERSION)
FILES_OF_VERSIONS = re.compile(rf"zarr\.json|[^/]+{PARTIAL}|[^/]+/(zarr\.json|[^/]+{PARTIAL}|\d{{6}}/{_VERSION})?")
# What killed processes have left of them half written.
LEFT_OF_VERSIONS = re.compile(rf"([^/]+/)?(\d{{6}}/)?[^/]+{PARTIAL}|[^/]+/\d{{6}}/{_PART}{PARTIAL}/.*")


def digest_of(arrays: Arrays) -> str:
    """What a block is recognised by: a hash of names, dtypes, shapes and checksums of its arrays."""
    return digest(describe(arrays))


class Versions:
    """Named arrays by address; how a block is stored is up to the classes below.

    Parameters
    ----------
    place : where they lie
    """

    def __init__(self, place: Place) -> None:
        self.place = place

    @property
    def maps_memory(self) -> bool:
        """Whether what other processes have written is mapped from the memory of this machine."""
        return False

    def name_of(self, address: Address) -> str:
        """Path of some arrays, relative to the place.

        Parameters
        ----------
        address : Address
            Their address.

        Returns
        -------
        str
        """
        return address.name

    def _write(self, kind: str, target: Any, arrays: Arrays) -> None:
        raise NotImplementedError

    def _read(self, name: str) -> Arrays:
        raise NotImplementedError

    def write(self, address: Address, arrays: Arrays) -> None:
        """Write a block; it appears whole, and a second write of the same block changes nothing.

        Raises
        ------
        OSError
            Naming the place, when it cannot be written.
        """
        name = self.name_of(address)
        if not self.place.holds(name):
            self.place.publish(name, lambda target: self._write(address.kind, target, arrays))

    def read(self, address: Address) -> Arrays:
        """A block as read-only arrays.

        Raises
        ------
        KeyError
            When it was never written.
        """
        return self._read(self.name_of(address))

    def discard(self, kind: str, version: int) -> None:
        """Remove a version; nothing happens when it is not there."""
        self.place.remove(version_folder(kind, version))


class ZarrStorage(Versions):
    """Versions that are to last: Zarr groups with checksums; what is damaged or incomplete is refused."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._groups: set[str] = set()

    def write(self, address: Address, arrays: Arrays) -> None:
        """Write a block, and the groups around it, through which xarray finds it."""
        for name in {"", address.kind, address.folder} - self._groups:
            if read_group(self.place, name) is None:
                with self.place.writing(name), suppress(ContainsGroupError):  # another task made it just now
                    zarr.open_group(self.place.target(name), mode="a", zarr_format=3)
            with self.place.writing(name):
                self.place.keep(f"{name}/zarr.json" if name else "zarr.json")
            self._groups.add(name)
        super().write(address, arrays)

    def discard(self, kind: str, version: int) -> None:
        """Remove a version with its group, and no files of others."""
        self.place.remove(version_folder(kind, version), _FILES_OF_VERSION)
        self._groups.discard(version_folder(kind, version))

    def _write(self, kind: str, target: Any, arrays: Arrays) -> None:
        group = zarr.open_group(target, mode="w")
        group.attrs[_NAMES] = sorted(arrays)
        for name, array in arrays.items():
            known = _DIMENSIONS.get(name, ())
            named = known if len(known) == array.ndim else tuple(f"{name}_{axis}" for axis in range(array.ndim))
            write_array(group, name, array, named)

    def _read(self, name: str) -> Arrays:
        attributes = read_group(self.place, name)
        if attributes is None:
            raise KeyError(f"{self.place.path}/{name}")
        # Runs of the first days of format 1 do not say what belongs to them.
        names = attributes.get(_NAMES) or sorted(self.place.children(name))
        if not isinstance(names, list) or not all(isinstance(array, str) for array in names):
            raise ValueError(f"{self.place.path}/{name}: damaged: {_NAMES} are {names!r:.60}, expected a list of names")
        return {array: read_array(self.place, name, array) for array in names}

    def keep_only(self, needed: Iterable[tuple[str, int]]) -> None:
        """Remove every version but the (kind, version) pairs that are needed."""
        wanted = {(kind, f"{version:06d}") for kind, version in needed}
        for kind in {kind for kind, _ in wanted}:
            for version in self.place.children(kind):
                if _NUMBER.fullmatch(version) and (kind, version) not in wanted:
                    self.discard(kind, int(version))


class NumberedStorage(ZarrStorage):
    """Versions in the folder of a run, whose parts are numbered (see `Address.number`).

    Parameters
    ----------
    place : Place
        Where they lie.
    n_blocks : int
        Component blocks of the run.
    """

    def __init__(self, place: Place, n_blocks: int) -> None:
        super().__init__(place)
        self._n_blocks = n_blocks

    def name_of(self, address: Address) -> str:
        """Path of some arrays; see `Versions.name_of`."""
        return f"{address.folder}/{address.number(self._n_blocks):05d}"
