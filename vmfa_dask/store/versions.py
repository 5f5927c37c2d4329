"""Versions of a run in a place that every process of the run can see: written once, and whole.

`Versions` is what all such places have in common, `ZarrStorage` the one for what is to last; versions in work lie in an
`ExchangeFolder` (`store.exchange`). May import: numpy, zarr, store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import zarr
from numpy.typing import NDArray
from zarr.errors import ContainsGroupError

from vmfa_dask.store.arrays import open_group, read_array, write_array
from vmfa_dask.store.places import Place

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


class Versions:
    """Named arrays under ``kind/version/block``; how a block is stored is up to the classes below.

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

    def _version(self, kind: str, version: int) -> str:
        return f"{kind}/{version:06d}"

    def _name(self, kind: str, version: int, block: int) -> str:
        return f"{self._version(kind, version)}/{block:05d}"

    def _write(self, kind: str, target: Any, arrays: Arrays) -> None:
        raise NotImplementedError

    def _read(self, name: str) -> Arrays:
        raise NotImplementedError

    def write(self, kind: str, version: int, block: int, arrays: Arrays) -> None:
        """Write a block; it appears whole, and a second write of the same block changes nothing.

        Raises
        ------
        OSError
            Naming the place, when it cannot be written.
        """
        name = self._name(kind, version, block)
        if not self.place.holds(name):
            self.place.publish(name, lambda target: self._write(kind, target, arrays))

    def read(self, kind: str, version: int, block: int) -> Arrays:
        """A block as read-only arrays.

        Raises
        ------
        KeyError
            When it was never written.
        """
        return self._read(self._name(kind, version, block))

    def discard(self, kind: str, version: int) -> None:
        """Remove a version; nothing happens when it is not there."""
        self.place.remove(self._version(kind, version))


class ZarrStorage(Versions):
    """Versions that are to last: Zarr groups with checksums; what is damaged or incomplete is refused."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._groups: set[str] = set()

    def write(self, kind: str, version: int, block: int, arrays: Arrays) -> None:
        """Write a block, and the groups around it, through which xarray finds it."""
        for name in {"", kind, self._version(kind, version)} - self._groups:
            with self.place.writing(name), suppress(ContainsGroupError):  # another task made it just now
                zarr.open_group(self.place.target(name), mode="a")
            self._groups.add(name)
        super().write(kind, version, block, arrays)

    def discard(self, kind: str, version: int) -> None:
        """Remove a version with its group."""
        super().discard(kind, version)
        self._groups.discard(self._version(kind, version))

    def _write(self, kind: str, target: Any, arrays: Arrays) -> None:
        group = zarr.open_group(target, mode="w")
        group.attrs[_NAMES] = sorted(arrays)
        for name, array in arrays.items():
            known = _DIMENSIONS.get(name, ())
            named = known if len(known) == array.ndim else tuple(f"{name}_{axis}" for axis in range(array.ndim))
            write_array(group, name, array, named)

    def _read(self, name: str) -> Arrays:
        where = f"{self.place.path}/{name}"
        try:
            group = open_group(where, self.place.target(name))
        except FileNotFoundError as error:
            raise KeyError(where) from error
        # Runs of the first days of format 1 do not say what belongs to them.
        names: Any = group.attrs.get(_NAMES) or sorted(self.place.children(name))
        return {name: read_array(group, name, where) for name in names}

    def keep_only(self, needed: Iterable[tuple[str, int]]) -> None:
        """Remove every version but the (kind, version) pairs that are needed."""
        wanted = {(kind, f"{version:06d}") for kind, version in needed}
        for kind in {kind for kind, _ in wanted}:
            for version in self.place.children(kind):
                if (kind, version) not in wanted:
                    self.discard(kind, int(version))
