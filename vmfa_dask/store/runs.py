"""The place of a run: what the run is, where it stands, and the stored versions that this needs.

``run.json`` says what the run is (settings, cuts, data, format) and does not change once there is a state;
``data.json`` is what its rows are recognised by; ``state.json`` is the marker: it is replaced, whole, only after
everything that it names is written. Killing the driver at any moment leaves the marker of
the last complete pass. May import: values, zarr, filelock, store.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from filelock import FileLock, Timeout

from vmfa_dask.store.locks import held_lock
from vmfa_dask.store.places import PARTIAL, FolderPlace, place_at
from vmfa_dask.store.run_files import (
    CONTENTS,
    FORMAT,
    FORMAT_VERSION,
    IDENTITY,
    PROCESSOR,
    STATE,
    Identity,
    KeptState,
    contents_of,
    identity_of,
    state_of,
    written_identity,
)
from vmfa_dask.store.scratch import ALL_BUT_MARK, MARK, new_mark, parse_mark
from vmfa_dask.store.strict import digest, sealed
from vmfa_dask.store.versions import FILES_OF_VERSIONS, LEFT_OF_VERSIONS, NumberedStorage

RESUME = ("auto", "never", "require")
_STOP = "stop"
# What is compared last: it tells that data changed, and not where.
_VAGUE = "sample"
_VERSIONS, _EXCHANGE, _LOCK = "versions", "exchange-", "run.lock"
_FILES = (IDENTITY, CONTENTS, STATE, _STOP, _LOCK)
_LEFT = re.compile(rf"({'|'.join(map(re.escape, _FILES))}){PARTIAL}|\.probe-\d+")
_OF_EXCHANGE = re.compile(rf"{_EXCHANGE}[0-9a-f]{{8}}")
_OF_MARK = re.compile(rf"{re.escape(MARK)}{PARTIAL}")
# What systems put into folders by themselves.
_OF_SYSTEMS = re.compile(r"lost\+found|\.DS_Store|\.snapshot|\.nfs[0-9a-f]+")
__all__ = ["FORMAT", "FORMAT_VERSION", "RESUME", "RunFolder", "read_settings", "read_state", "request_stop"]


def request_stop(path: str) -> None:
    """Ask the driver of the run at a path or URL to stop after its pass."""
    place_at(path).replace(_STOP, "")


def read_state(path: str) -> dict[str, Any] | None:
    """Where the run at a path or URL stands: the last state that a driver kept, or None.

    Raises
    ------
    ValueError
        Naming the file when it is damaged or of another run.
    """
    place = place_at(path)
    found = state_of(place, identity_of(place))
    return None if found is None else found.values


def read_settings(path: str) -> dict[str, Any]:
    """Settings that the run at a path or URL was begun with; empty where there is none, or no place for one."""
    try:
        known = identity_of(place_at(path))
    except OSError:  # `RunFolder` says what is wrong with the place
        return {}
    settings = known.values.get("settings") if known is not None else None
    return dict(settings or {})


class RunFolder:
    """A run on a local or shared disk or in an object store, held by one driver at a time.

    Parameters
    ----------
    path : folder, made when it does not exist, or URL; what is there already must be nothing, or a run

    Raises
    ------
    FileExistsError
        When there are other files and no run, or links where a run has files of its own; nothing has changed then.
    PermissionError, OSError
        When the place cannot be written.
    RuntimeError
        When another driver holds the run. (In an object store, which has no locks, this is seen when one of the two
        first keeps its state: `store.places.ObjectPlace`.)
    """

    def __init__(self, path: str) -> None:
        self._place = place_at(path)
        self.path = self._place.path
        self._refuse_strangers()
        self._place.probe()
        self._lock: FileLock | None = None
        self._known: Identity | None = None
        if isinstance(self._place, FolderPlace):
            try:
                self._lock = held_lock(self._place.target(_LOCK))
            except Timeout as error:
                raise RuntimeError(f"{self.path}: another process is working on this run") from error
            self._remove_leftovers(self._place)

    def _refuse_strangers(self) -> None:
        """Refuse a place in which a run would lie among files of others, or would follow links."""
        names = self._place.entries()
        if isinstance(self._place, FolderPlace):
            links = [name for name in (*_FILES, _VERSIONS) if os.path.islink(self._place.target(name))]
            if links:
                raise FileExistsError(f"{self.path}/{links[0]} is a link, expected a file or folder of the run itself")
        known = {*_FILES, _VERSIONS}
        patterns = (_LEFT, _OF_EXCHANGE, _OF_SYSTEMS)
        others = [name for name in names if name not in known and not any(p.fullmatch(name) for p in patterns)]
        if others and not {IDENTITY, STATE} & set(names):
            raise FileExistsError(
                f"run={self.path!r} holds other files, such as {others[0]!r}, and no run; expected a new or an empty "
                "folder, or one that holds a run"
            )

    def _remove_leftovers(self, place: FolderPlace) -> None:
        """Remove what killed drivers have left half written; the lock says that none is at work."""
        for name in place.entries():
            if _LEFT.fullmatch(name):
                place.take(name)
        if os.path.isdir(place.target(_VERSIONS)):
            place.remove(_VERSIONS, LEFT_OF_VERSIONS)

    def release(self) -> None:
        """Let other drivers work on the run."""
        if self._lock is not None:
            self._lock.release()

    def versions(self, n_blocks: int) -> NumberedStorage:
        """The versions that are to last, of a run with `n_blocks` component blocks."""
        return NumberedStorage(place_at(f"{self.path}/{_VERSIONS}"), n_blocks)

    def check_space(self, n_bytes: int) -> None:
        """Refuse a run that the disk cannot keep, before its first pass.

        Raises
        ------
        OSError
            With the bytes that are free and needed.
        """
        free = self._place.free_bytes()
        if free is not None and free < n_bytes:
            raise OSError(
                errno.ENOSPC,
                f"keeping the run takes up to {n_bytes / 2**20:.1f} MiB, and {free / 2**20:.1f} MiB are free",
                self.path,
            )

    def exchange(self, name: str) -> str:
        """Path or URL for versions in work; those of earlier drivers, which were killed, are removed."""
        self.remove_exchanges()
        if isinstance(self._place, FolderPlace):
            with self._place.writing(f"{_EXCHANGE}{name}"):
                os.mkdir(self._place.target(f"{_EXCHANGE}{name}"))
        self._place.replace(f"{_EXCHANGE}{name}/{MARK}", new_mark(locked=False))
        return f"{self.path}/{_EXCHANGE}{name}"

    def remove_exchanges(self) -> None:
        """Remove all versions in work, with their marks at last; none belongs to another driver that lives."""
        for left in filter(_OF_EXCHANGE.fullmatch, self._place.children("")):
            if self._is_marked(left):
                self._place.remove(left, ALL_BUT_MARK)
                self._place.take(f"{left}/{MARK}")
            self._place.remove(left, _OF_MARK)  # goes where nothing else is left in it

    def _is_marked(self, exchange: str) -> bool:
        try:
            return parse_mark(self._place.read(f"{exchange}/{MARK}")) is not None
        except ValueError:  # no file, or no text
            return False

    def begin(
        self,
        identity: dict[str, Any],
        resume: str,
        recognize: Callable[[dict[str, Any] | None], dict[str, Any]] = lambda known: {},
    ) -> KeptState | None:
        """Create the run, or find where it stands.

        Parameters
        ----------
        identity : plain values by section; sections of an existing run must be equal
        resume : "auto" continues what is there, "never" refuses to, "require" refuses to begin anew
        recognize : gives what the rows are recognised by later, from what is known of them; raises where they have
            changed

        Returns
        -------
        The state of the last complete pass, or None at the beginning.

        Raises
        ------
        ValueError
            When `resume` is unknown, or the run there is another one; the difference is named.
        FileExistsError, FileNotFoundError
            For "never" where a run exists, for "require" where none does.
        """
        if resume not in RESUME:
            raise ValueError(f"resume={resume!r}: expected one of {RESUME}")
        self.stop_requested()  # one that no driver answered is no wish for this one
        identity = json.loads(json.dumps(identity))
        known = self.begun()
        if known is None:
            if resume == "require":
                raise FileNotFoundError(f"{self.path}: no run is stored there, and resume='require'")
            self._place.remove(_VERSIONS, FILES_OF_VERSIONS)  # of a run that ended before it had a state
            self._replace(CONTENTS, recognize(None))
            self._known = Identity(identity, FORMAT_VERSION, digest(identity))
            self._replace(IDENTITY, written_identity(self._known))
            return None
        if resume == "never":
            raise FileExistsError(f"{self.path}: a run is stored there, and resume='never'")
        self._compare(known, identity, leave_out=_VAGUE)
        contents = contents_of(self._place, self._known)
        found = json.loads(json.dumps(recognize(contents)))
        self._compare(known, identity)
        if found != contents:
            self._replace(CONTENTS, found)
        return state_of(self._place, self._known)

    def begun(self) -> dict[str, Any] | None:
        """What the run in this folder is, where there is one with a state.

        One without a state holds nothing, and may become another run. In an object store, which has no locks, its
        driver may be at work on the first state just now.
        """
        known = self.identity()
        empty = known is not None and isinstance(self._place, FolderPlace) and self._place.read(STATE) is None
        return None if empty else known

    def give_up(self) -> None:
        """Leave no trace of what the run is where it has no state: nothing was done, so any run may begin here."""
        if self._place.read(STATE) is None:
            for name in (IDENTITY, CONTENTS, PROCESSOR):
                self._place.take(name)
            if isinstance(self._place, FolderPlace):  # elsewhere another driver may have written them
                self._place.remove(_VERSIONS, FILES_OF_VERSIONS)

    def identity(self) -> dict[str, Any] | None:
        """What the run in this folder is, as it was begun; None where there is none.

        Raises
        ------
        ValueError
            When the file is gone or damaged, or of a format that this version does not know.
        """
        self._known = identity_of(self._place)
        if self._known is None:
            if self._place.read(STATE) is not None:
                raise ValueError(f"{self.path}: {IDENTITY} is missing beside {STATE}; the run is damaged")
            return None
        return self._known.values

    def stop_requested(self) -> bool:
        """Whether somebody asked for the end of the run; asked once, answered once."""
        return self._place.take(_STOP)

    def _compare(self, known: dict[str, Any], asked: dict[str, Any], leave_out: str = "") -> None:
        """Refuse another run. Sections that came after it was begun are not known of it."""
        for section in (section for section in asked if section in known):
            there, here = known[section] or {}, asked[section] or {}
            for name in sorted((set(there) | set(here)) - {leave_out}):
                if there.get(name) != here.get(name):
                    raise ValueError(
                        f"{self.path} holds another run: its {section} {name} is {there.get(name)!r}, "
                        f"this call has {here.get(name)!r}; use another folder, or the same numbers and data"
                    )

    def write_state(self, state: dict[str, Any], versions: Mapping[str, str] | None = None) -> None:
        """Move the marker: what `state` names must be written before.

        Parameters
        ----------
        state : plain values
        versions : digests of the stored blocks that it needs, by their names
        """
        known = self._known
        self._replace(STATE, {**state, "versions": dict(versions or {}), "run": known.mark if known else None})
        if known is not None and known.version < FORMAT_VERSION:  # run.json last: it says that all have checksums
            self._replace(CONTENTS, contents_of(self._place, known) or {})
            self._known = Identity(known.values, FORMAT_VERSION, known.mark)
            self._replace(IDENTITY, written_identity(self._known))

    def _replace(self, name: str, values: dict[str, Any]) -> None:
        self._place.replace(name, json.dumps(sealed(values), indent=1, allow_nan=False))
