"""The place of a run: what the run is, where it stands, and the stored versions that this needs.

``run.json`` says what the run is (settings, cuts, data, format) and does not change once there is a state;
``data.json`` is what its rows are recognised by; ``state.json`` is the marker: it is replaced, whole, only after
everything that it names is written. Killing the driver at any moment leaves the marker of
the last complete pass. May import: values, zarr, filelock, store.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from typing import Any

from filelock import FileLock, Timeout

from vmfa_dask.store.places import FolderPlace, Place, place_at
from vmfa_dask.store.versions import ZarrStorage

FORMAT, FORMAT_VERSION = "vmfa_dask.run", 1
RESUME = ("auto", "never", "require")
_IDENTITY, _CONTENTS, _STATE, _STOP = "run.json", "data.json", "state.json", "stop"
# What is compared last: it tells that data changed, and not where.
_VAGUE = "sample"
_VERSIONS, _EXCHANGE = "versions", "exchange-"


def request_stop(path: str) -> None:
    """Ask the driver of the run at a path or URL to stop after its pass."""
    place_at(path).replace(_STOP, "")


def read_state(path: str) -> dict[str, Any] | None:
    """Where the run at a path or URL stands: the last state that a driver kept, or None."""
    return _read(place_at(path), _STATE)


def read_settings(path: str) -> dict[str, Any]:
    """Settings that the run at a path or URL was begun with; empty where there is none, or no place for one."""
    try:
        known = _read(place_at(path), _IDENTITY)
    except OSError:  # `RunFolder` says what is wrong with the place
        return {}
    settings = known.get("settings") if isinstance(known, dict) else None
    return dict(settings) if isinstance(settings, dict) else {}


def _read(place: Place, name: str) -> dict[str, Any] | None:
    text = place.read(name)
    if text is None:
        return None
    try:
        values: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{place.path}/{name}: not readable as JSON; the run is damaged") from error
    return values


class RunFolder:
    """A run on a local or shared disk or in an object store, held by one driver at a time.

    Parameters
    ----------
    path : folder, made when it does not exist, or URL

    Raises
    ------
    PermissionError, OSError
        When the place cannot be written.
    RuntimeError
        When another driver holds the run. (In an object store, which has no locks, this is seen when one of the two
        first keeps its state: `store.places.ObjectPlace`.)
    """

    def __init__(self, path: str) -> None:
        self._place = place_at(path)
        self.path = self._place.path
        self._place.probe()
        self._lock: FileLock | None = None
        if isinstance(self._place, FolderPlace):
            self._lock = FileLock(self._place.target("run.lock"))
            try:
                self._lock.acquire(timeout=0)
            except Timeout as error:
                raise RuntimeError(f"{self.path}: another process is working on this run") from error

    def release(self) -> None:
        """Let other drivers work on the run."""
        if self._lock is not None:
            self._lock.release()

    def versions(self) -> ZarrStorage:
        """The versions that are to last."""
        return ZarrStorage(place_at(f"{self.path}/{_VERSIONS}"))

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
        return f"{self.path}/{_EXCHANGE}{name}"

    def remove_exchanges(self) -> None:
        """Remove all versions in work; none belongs to another driver that lives."""
        for left in self._place.children(""):
            if left.startswith(_EXCHANGE):
                self._place.remove(left)

    def begin(
        self,
        identity: dict[str, Any],
        resume: str,
        recognize: Callable[[dict[str, Any] | None], dict[str, Any]] = lambda known: {},
    ) -> dict[str, Any] | None:
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
            self._place.remove(_VERSIONS)  # of a run that ended before it had a state
            self._replace(_CONTENTS, recognize(None))
            self._replace(_IDENTITY, {"format": {"name": FORMAT, "version": FORMAT_VERSION}, **identity})
            return None
        if resume == "never":
            raise FileExistsError(f"{self.path}: a run is stored there, and resume='never'")
        self._compare(known, identity, leave_out=_VAGUE)
        contents = _read(self._place, _CONTENTS)
        found = json.loads(json.dumps(recognize(contents)))
        self._compare(known, identity)
        if found != contents:
            self._replace(_CONTENTS, found)
        return _read(self._place, _STATE)

    def begun(self) -> dict[str, Any] | None:
        """What the run in this folder is, where there is one with a state.

        One without a state holds nothing, and may become another run. In an object store, which has no locks, its
        driver may be at work on the first state just now.
        """
        known = self.identity()
        empty = known is not None and self._lock is not None and self._place.read(_STATE) is None
        return None if empty else known

    def give_up(self) -> None:
        """Leave no trace of what the run is where it has no state: nothing was done, so any run may begin here."""
        if self._place.read(_STATE) is None:
            self._place.take(_IDENTITY)
            self._place.take(_CONTENTS)

    def identity(self) -> dict[str, Any] | None:
        """What the run in this folder is, as it was begun; None where there is none.

        Raises
        ------
        ValueError
            When the file is gone or damaged, or of a format that this version does not know.
        """
        known = _read(self._place, _IDENTITY)
        if known is None:
            if self._place.read(_STATE) is not None:
                raise ValueError(f"{self.path}: {_IDENTITY} is missing beside {_STATE}; the run is damaged")
            return None
        found = known.pop("format", None) or {}
        version = found.get("version")
        if found.get("name") != FORMAT or not isinstance(version, int) or version > FORMAT_VERSION:
            raise ValueError(
                f"{self.path}: its format version is {version}, this version of vmfa_dask reads up to "
                f"{FORMAT_VERSION}; update vmfa_dask to go on with it"
            )
        return known

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

    def write_state(self, state: dict[str, Any]) -> None:
        """Move the marker: what `state` names must be written before."""
        self._replace(_STATE, state)

    def _replace(self, name: str, values: dict[str, Any]) -> None:
        self._place.replace(name, json.dumps(values, indent=1, allow_nan=False))
