"""Stages: trainings with settings of their own on the way to a run's start, on its rows, its tasks and its storage.

A stage keeps what it writes under kinds of its own, so that its versions and those of the run do not meet. May import:
values, kernels, em.
"""

from __future__ import annotations

from dataclasses import dataclass

from vmfa_dask.addresses import Address, OfStage
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.storage import Arrays, SharedArrays, Storage


@dataclass(frozen=True)
class Stage:
    """A training with other settings than the run's.

    Parameters
    ----------
    name : str
        Prefix of its tasks and of the kinds that it stores.
    settings : Settings
        As many components as the run, which share its plan.
    """

    name: str
    settings: Settings


class StageStorage:
    """The part of a run's storage that belongs to one of its stages.

    Parameters
    ----------
    storage : Storage
        Storage of the run.
    stage : Stage
        The stage.
    """

    def __init__(self, storage: Storage, stage: Stage) -> None:
        self._storage, self._name = storage, stage.name

    @property
    def maps_memory(self) -> bool:
        """As the storage of the run."""
        return self._storage.maps_memory

    @property
    def shared(self) -> SharedArrays | None:
        """None: stages are trainings of few passes."""
        return None

    @property
    def path(self) -> str:
        """As the storage of the run."""
        return self._storage.path

    def free_bytes(self) -> int | None:
        """As the storage of the run; see `Storage.free_bytes`."""
        return self._storage.free_bytes()

    def _own(self, address: Address) -> Address:
        return OfStage(self._name, address)

    def write(self, address: Address, arrays: Arrays) -> None:
        """Write under the kinds of the stage; see `Storage.write`."""
        self._storage.write(self._own(address), arrays)

    def read(self, address: Address) -> Arrays:
        """Read what the stage has written; see `Storage.read`."""
        return self._storage.read(self._own(address))

    def discard(self, kind: str, version: int) -> None:
        """Forget a version of the stage; see `Storage.discard`."""
        self._storage.discard(f"{self._name}-{kind}", version)
