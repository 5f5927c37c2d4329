"""A run in a folder or an object store: finding or creating it, its state, and the stored versions this needs.

``run.json`` says what the run is and does not change once there is a state. ``state.json`` is the marker: it is
replaced atomically, and only after everything that it names is written. A driver that is killed at any moment leaves
the marker of the last complete pass. `store.run_files` reads and writes these files, `store.run_layout` knows what else
may be there. May import: filelock, store.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from typing import Any

from filelock import FileLock, Timeout

from vmfa_dask.store import run_layout
from vmfa_dask.store.folder_place import FolderPlace
from vmfa_dask.store.locks import held_lock
from vmfa_dask.store.places import place_at
from vmfa_dask.store.run_files import (
    CONTENTS,
    FORMAT_VERSION,
    IDENTITY,
    PROCESSOR,
    STATE,
    Identity,
    KeptState,
    read_contents,
    read_identity,
    read_kept_state,
    write_identity,
    write_sealed,
)
from vmfa_dask.store.run_layout import LOCK, STOP, VERSIONS
from vmfa_dask.store.strict import digest
from vmfa_dask.store.version_store import FILES_OF_VERSIONS, NumberedStorage

RESUME = ("auto", "never", "require")
# Compared last: it tells that the data have changed, but not where.
_LEAST_TELLING = "sample"


class RunFolder:
    """A run on a local or shared disk or in an object store, held by one driver at a time.

    Object stores have no locks. There, a second driver is noticed only when one of the two first keeps its state, which
    raises RuntimeError in the slower one (`store.object_place.ObjectPlace`).

    Parameters
    ----------
    path : str
        Folder, created if needed, or URL. It must be empty or hold a run.

    Raises
    ------
    FileExistsError
        If there are other files and no run, or links in place of the run's files; nothing has changed then.
    OSError
        If it cannot be written.
    RuntimeError
        If another driver holds the run.
    """

    def __init__(self, path: str) -> None:
        self._place = place_at(path)
        self.path = self._place.path
        run_layout.refuse_other_files(self._place)
        self._place.probe()
        self._lock: FileLock | None = None
        self._identity: Identity | None = None
        if isinstance(self._place, FolderPlace):
            try:
                self._lock = held_lock(self._place.target(LOCK))
            except Timeout as error:
                raise RuntimeError(f"{self.path}: another process is working on this run") from error
            run_layout.remove_leftovers(self._place)

    def release(self) -> None:
        """Let other drivers work on the run."""
        if self._lock is not None:
            self._lock.release()

    def versions(self, n_blocks: int) -> NumberedStorage:
        """Open the storage of the versions that must last.

        Parameters
        ----------
        n_blocks : int
            Number of component blocks of the run.

        Returns
        -------
        NumberedStorage
            The storage below the folder of the run.
        """
        return NumberedStorage(place_at(f"{self.path}/{VERSIONS}"), n_blocks)

    def check_space(self, n_bytes: int) -> None:
        """Refuse a run that does not fit on the disk, before its first pass.

        Parameters
        ----------
        n_bytes : int
            Most bytes that the run will take.

        Raises
        ------
        OSError
            If fewer bytes are free; the message names both numbers.
        """
        free = self._place.free_bytes()
        if free is not None and free < n_bytes:
            raise OSError(
                errno.ENOSPC,
                f"keeping the run takes up to {n_bytes / 2**20:.1f} MiB, and {free / 2**20:.1f} MiB are free",
                self.path,
            )

    def exchange(self, name: str) -> str:
        """Make the folder or prefix through which processes exchange versions, and remove those of killed drivers.

        Parameters
        ----------
        name : str
            8 hexadecimal digits that no earlier driver has used.

        Returns
        -------
        str
            Its path or URL.

        Raises
        ------
        OSError
            If it cannot be made.
        """
        return run_layout.make_exchange(self._place, name)

    def remove_exchanges(self) -> None:
        """Remove the folders or prefixes of `exchange`, those of killed drivers too."""
        run_layout.remove_exchanges(self._place)

    def begin(
        self,
        identity: dict[str, Any],
        resume: str,
        recognize: Callable[[dict[str, Any] | None], dict[str, Any]] = lambda contents: {},
    ) -> KeptState | None:
        """Create the run, or find how far it has come.

        Parameters
        ----------
        identity : dict of str to dict
            What the run is: JSON values by section, which must equal those of an existing run.
        resume : str
            "auto" continues an existing run, "never" refuses to, "require" refuses to create one.
        recognize : callable
            Called with how the rows were recognised so far, or None; returns how they will be from now on. It must
            raise if the rows have changed.

        Returns
        -------
        KeptState or None
            The state of the last complete pass; None at the beginning.

        Raises
        ------
        ValueError
            If `resume` is unknown, or the existing run is another one; the message names the difference.
        FileExistsError
            For "never", if a run exists.
        FileNotFoundError
            For "require", if none does.
        RuntimeError
            If another driver has written to the run meanwhile (object stores).
        """
        if resume not in RESUME:
            raise ValueError(f"resume={resume!r}: expected one of {RESUME}")
        self.stop_requested()  # a request that an earlier driver has not answered is not meant for this one
        identity = json.loads(json.dumps(identity))
        sections = self.begun()
        if sections is None:
            if resume == "require":
                raise FileNotFoundError(f"{self.path}: no run is stored there, and resume='require'")
            self._create(identity, recognize)
            return None
        if resume == "never":
            raise FileExistsError(f"{self.path}: a run is stored there, and resume='never'")
        self._refuse_other_run(sections, identity, leave_out=_LEAST_TELLING)
        contents = read_contents(self._place, self._identity)
        new_contents = json.loads(json.dumps(recognize(contents)))
        self._refuse_other_run(sections, identity)
        if new_contents != contents:
            write_sealed(self._place, CONTENTS, new_contents)
        return read_kept_state(self._place, self._identity)

    def _create(self, identity: dict[str, Any], recognize: Callable[[None], dict[str, Any]]) -> None:
        self._place.remove(VERSIONS, FILES_OF_VERSIONS)  # of a run that ended before it had a state
        write_sealed(self._place, CONTENTS, recognize(None))
        self._identity = Identity(identity, FORMAT_VERSION, digest(identity))
        write_identity(self._place, self._identity)

    def begun(self) -> dict[str, Any] | None:
        """Read what the run is, unless it may still become another one.

        A run without a state has nothing to lose. In an object store it is taken as begun all the same: there are no
        locks, and another driver may be working towards its first state.

        Returns
        -------
        dict of str to dict, or None
            JSON values by section; None if there is no run, or one in a folder that has no state yet.

        Raises
        ------
        ValueError
            As for `identity`.
        """
        sections = self.identity()
        is_empty = (
            sections is not None and isinstance(self._place, FolderPlace) and self._place.read(STATE) is None
        )
        return None if is_empty else sections

    def give_up(self) -> None:
        """Remove what says which run this is if it has no state: nothing is lost, and any run may begin here."""
        if self._place.read(STATE) is None:
            for name in (IDENTITY, CONTENTS, PROCESSOR):
                self._place.take(name)
            if isinstance(self._place, FolderPlace):  # in an object store they may be those of another driver
                self._place.remove(VERSIONS, FILES_OF_VERSIONS)

    def identity(self) -> dict[str, Any] | None:
        """Read what the run is.

        Returns
        -------
        dict of str to dict, or None
            JSON values by section; None if there is no run.

        Raises
        ------
        ValueError
            If the file is missing or damaged, or of a format that this version does not know.
        """
        self._identity = read_identity(self._place)
        if self._identity is None:
            if self._place.read(STATE) is not None:
                raise ValueError(f"{self.path}: {IDENTITY} is missing beside {STATE}; the run is damaged")
            return None
        return self._identity.values

    def stop_requested(self) -> bool:
        """Whether the run was asked to stop since the last call."""
        return self._place.take(STOP)

    def _refuse_other_run(self, stored: dict[str, Any], asked: dict[str, Any], leave_out: str = "") -> None:
        """Raise at the first difference; sections that are newer than the stored run are not compared."""
        for section in (section for section in asked if section in stored):
            old, new = stored[section] or {}, asked[section] or {}
            for name in sorted((set(old) | set(new)) - {leave_out}):
                if old.get(name) != new.get(name):
                    raise ValueError(
                        f"{self.path} holds another run: its {section} {name} is {old.get(name)!r}, "
                        f"this call has {new.get(name)!r}; use another folder, or the same numbers and data"
                    )

    def write_state(self, state: dict[str, Any], versions: Mapping[str, str] | None = None, **limits: float) -> None:
        """Move the marker; the blocks that the state needs must be written before.

        Parameters
        ----------
        state : dict
            The state, as JSON values.
        versions : mapping of str to str
            Digests of these blocks by name.
        **limits : float
            Settings of this call that another one may change.

        Raises
        ------
        RuntimeError
            If another driver has moved the marker meanwhile (object stores).
        OSError
            If it cannot be written; the marker is where it was.
        """
        identity = self._identity
        mark = identity.mark if identity is not None else None
        extra = {"limits": limits} if limits else {}
        write_sealed(self._place, STATE, {**state, **extra, "versions": dict(versions or {}), "run": mark})
        if identity is not None and identity.version < FORMAT_VERSION:
            # run.json last: from then on all files must have checksums.
            write_sealed(self._place, CONTENTS, read_contents(self._place, identity) or {})
            self._identity = Identity(identity.values, FORMAT_VERSION, identity.mark)
            write_identity(self._place, self._identity)
