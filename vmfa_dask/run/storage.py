"""Where versions of parameters, graphs and posteriors live between tasks. May import: addresses."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from vmfa_dask.addresses import Address

Arrays = Mapping[str, NDArray[Any]]


class SharedArrays(Protocol):
    """Arrays in the memory of one machine, written in parts by several processes and mapped by all of them.

    Whoever has read them may keep them: their memory is not used for others.
    """

    def holds(self, address: Address) -> bool:
        """Whether something was written.

        Parameters
        ----------
        address : Address
            Where to.

        Returns
        -------
        bool
        """
        ...

    def write_part(self, address: Address, length: int, start: int, arrays: Arrays) -> None:
        """Write a range of the first axis; what is not written yet may be read as anything.

        Parameters
        ----------
        address : Address
            Where to.
        length : int
            Length of the first axis of all parts together.
        start : int
            Where this part begins.
        arrays : mapping of str to array
            Arrays of one part.

        Raises
        ------
        OSError
            If there is no room for all parts.
        """
        ...

    def map_parts(self, address: Address) -> Arrays:
        """Map what was written in parts.

        Parameters
        ----------
        address : Address
            Where from.

        Returns
        -------
        mapping of str to array
            Not to be written to, although their flags allow it: kernels are compiled for such arrays.

        Raises
        ------
        KeyError
            If nothing was written there.
        """
        ...


class Storage(Protocol):
    """Named arrays by address; each address is written once."""

    @property
    def maps_memory(self) -> bool:
        """Whether arrays that other processes have written are mapped from the memory of this machine."""
        ...

    @property
    def shared(self) -> SharedArrays | None:
        """Arrays that all processes map; None where each process makes its own, or there is only one."""
        ...

    @property
    def path(self) -> str:
        """Folder or URL, for messages; empty in memory."""
        ...

    def free_bytes(self) -> int | None:
        """Bytes that can still be written; None where this is unknown."""
        ...

    def write(self, address: Address, arrays: Arrays) -> None:
        """Write arrays.

        Parameters
        ----------
        address : Address
            Where to.
        arrays : mapping of str to array
            They become read-only.
        """
        ...

    def read(self, address: Address) -> Arrays:
        """Read arrays.

        Parameters
        ----------
        address : Address
            Where from.

        Returns
        -------
        mapping of str to read-only array

        Raises
        ------
        KeyError
            If nothing was written there.
        """
        ...

    def discard(self, kind: str, version: int) -> None:
        """Forget a version; nothing happens if it does not exist.

        Parameters
        ----------
        kind : str
            Kind of its addresses.
        version : int
            Its number.
        """
        ...


class MemoryStorage:
    """Versions in the memory of this process, for a driver and workers that share it (see `Storage`)."""

    maps_memory = False  # results of tasks are in memory already
    shared: SharedArrays | None = None
    path = ""

    def __init__(self) -> None:
        self._arrays: dict[Address, Arrays] = {}
        self._lock = threading.Lock()

    def free_bytes(self) -> int | None:
        """None; see `Storage.free_bytes`."""
        return None

    def write(self, address: Address, arrays: Arrays) -> None:
        """Keep the arrays themselves; see `Storage.write`."""
        for array in arrays.values():
            array.flags.writeable = False
        with self._lock:
            self._arrays[address] = dict(arrays)

    def read(self, address: Address) -> Arrays:
        """The arrays that were written; see `Storage.read`."""
        with self._lock:
            return self._arrays[address]

    def discard(self, kind: str, version: int) -> None:
        """Drop the references; see `Storage.discard`."""
        with self._lock:
            for address in [a for a in self._arrays if (a.kind, a.version) == (kind, version)]:
                del self._arrays[address]
