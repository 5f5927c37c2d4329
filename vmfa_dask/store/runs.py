"""The folder of a run: what the run is, where it stands, and the stored versions that this needs.

``run.json`` says what the run is (settings, cuts, data, format) and never changes; ``state.json`` is the marker: it is
replaced, by a rename, only after everything that it names is written. Killing the driver at any moment leaves the
marker of the last complete pass. May import: values, zarr, filelock.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
from typing import Any

from filelock import FileLock, Timeout

FORMAT, FORMAT_VERSION = "vmfa_dask.run", 1
RESUME = ("auto", "never", "require")
_IDENTITY, _STATE, _STOP = "run.json", "state.json", "stop"


def request_stop(path: str) -> None:
    """Ask the driver of the run in a folder to stop after its pass."""
    with open(os.path.join(path, _STOP), "w", encoding="utf-8"):
        pass


def read_state(path: str) -> dict[str, Any] | None:
    """Where the run in a folder stands: the last state that a driver kept, or None."""
    return _read(path, _STATE)


def _read(folder: str, name: str) -> dict[str, Any] | None:
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        try:
            values: dict[str, Any] = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path}: not readable as JSON; the run is damaged") from error
    return values


class RunFolder:
    """A run on a local or shared disk, held by one driver at a time.

    Parameters
    ----------
    path : folder; made when it does not exist

    Raises
    ------
    PermissionError, OSError
        When the folder cannot be written.
    RuntimeError
        When another driver holds the run.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        os.makedirs(self.path, exist_ok=True)
        self._probe()
        self._lock = FileLock(os.path.join(self.path, "run.lock"))
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise RuntimeError(f"{self.path}: another process is working on this run") from error

    def _probe(self) -> None:
        """Find out before the first pass whether the folder can be written."""
        probe = os.path.join(self.path, f".probe-{os.getpid()}")
        try:
            with open(probe, "w") as file:
                file.write("ok")
            os.remove(probe)
        except OSError as error:
            raise type(error)(
                error.errno, f"the run's folder cannot be written: {error.strerror}", self.path
            ) from error

    def release(self) -> None:
        """Let other drivers work on the run."""
        self._lock.release()

    def exchange(self, name: str) -> str:
        """Path of a folder for versions in work; the folders of earlier drivers, which were killed, are removed."""
        for left in glob.glob(os.path.join(glob.escape(self.path), "exchange-*")):
            shutil.rmtree(left, ignore_errors=True)
        return os.path.join(self.path, f"exchange-{name}")

    def begin(self, identity: dict[str, Any], resume: str) -> dict[str, Any] | None:
        """Create the run, or find where it stands.

        Parameters
        ----------
        identity : plain values by section; sections of an existing run must be equal
        resume : "auto" continues what is there, "never" refuses to, "require" refuses to begin anew

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
        known = self.identity()
        if known is None:
            if resume == "require":
                raise FileNotFoundError(f"{self.path}: no run is stored there, and resume='require'")
            self._replace(_IDENTITY, {"format": {"name": FORMAT, "version": FORMAT_VERSION}, **identity})
            return None
        if resume == "never":
            raise FileExistsError(f"{self.path}: a run is stored there, and resume='never'")
        self._compare(known, identity)
        return read_state(self.path)

    def identity(self) -> dict[str, Any] | None:
        """What the run in this folder is, as it was begun; None where there is none.

        Raises
        ------
        ValueError
            When the file is gone or damaged, or of a format that this version does not know.
        """
        known = _read(self.path, _IDENTITY)
        if known is None:
            if os.path.exists(os.path.join(self.path, _STATE)):
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
        try:
            os.remove(os.path.join(self.path, _STOP))
        except FileNotFoundError:
            return False
        return True

    def _compare(self, known: dict[str, Any], asked: dict[str, Any]) -> None:
        for section in asked:
            there, here = known.get(section) or {}, asked.get(section) or {}
            for name in sorted(set(there) | set(here)):
                if there.get(name) != here.get(name):
                    raise ValueError(
                        f"{self.path} holds another run: its {section} {name} is {there.get(name)!r}, "
                        f"this call has {here.get(name)!r}; use another folder, or the same numbers and data"
                    )

    def write_state(self, state: dict[str, Any]) -> None:
        """Move the marker: what `state` names must be written before."""
        self._replace(_STATE, state)

    def _replace(self, name: str, values: dict[str, Any]) -> None:
        path = os.path.join(self.path, name)
        with open(f"{path}.partial", "w", encoding="utf-8") as file:
            json.dump(values, file, indent=1, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.partial", path)
