"""The JSON files of a run, read strictly: with the right checksum, of one run, in a known format.

``run.json`` says what the run is (settings, plan, data, format), ``data.json`` how its rows are recognised,
``state.json`` how far it has come, and ``processor.json`` what computes it. May import: store.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from vmfa_dask.store.places import Place
from vmfa_dask.store.strict import as_json, digest, sealed, unsealed

# Format 1 had no checksums. Its runs become format 2 when their next state is kept.
FORMAT, FORMAT_VERSION = "vmfa_dask.run", 2
IDENTITY, CONTENTS, STATE, PROCESSOR = "run.json", "data.json", "state.json", "processor.json"


@dataclass(frozen=True)
class KeptState:
    """A state that a run has kept.

    Parameters
    ----------
    values : dict
        The state, as JSON values.
    versions : dict of str to str, or None
        Digests of the stored blocks that it needs, by name; None if it was kept in format 1.
    limits : dict of str to float
        Settings that a call may change, of the one that kept it; empty if an earlier version did.
    """

    values: dict[str, Any]
    versions: dict[str, str] | None
    limits: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Identity:
    """What a run is.

    Parameters
    ----------
    values : dict of str to dict
        JSON values by section: settings, data, plan, start.
    version : int
        Number of the format in which the run is stored.
    mark : str
        Digest of `values`, which tells the run from others.
    """

    values: dict[str, Any]
    version: int
    mark: str

    @property
    def has_checksums(self) -> bool:
        """Whether the files of the run have checksums."""
        return self.version > 1


def read_identity(place: Place) -> Identity | None:
    """Read what the run at a place is.

    Parameters
    ----------
    place : Place
        Folder or prefix of the run.

    Returns
    -------
    Identity or None
        None if there is no run.

    Raises
    ------
    ValueError
        If the file is damaged, or of a format that this version does not know.
    OSError
        If it cannot be read.
    """
    where = f"{place.path}/{IDENTITY}"
    content = _read(place, IDENTITY)
    if content is None:
        return None
    # The format comes first: newer ones may be stored differently in every other respect.
    stored_format = content.get("format")
    version = stored_format.get("version") if isinstance(stored_format, dict) else None
    name = stored_format.get("name") if isinstance(stored_format, dict) else None
    if name != FORMAT or type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise ValueError(
            f"{where}: its format version is {version}, this version of vmfa_dask reads up to "
            f"{FORMAT_VERSION}; update vmfa_dask to continue it"
        )
    values = unsealed(content, where, required=version > 1)
    sections = {name: section for name, section in values.items() if name != "format"}
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise ValueError(f"{where}: damaged: {name} is {section!r:.60}, expected an object")
    return Identity(sections, version, digest(sections))


def write_identity(place: Place, identity: Identity) -> None:
    """Write what the run at a place is.

    Parameters
    ----------
    place : Place
        Folder or prefix of the run.
    identity : Identity
        The run.

    Raises
    ------
    RuntimeError
        If another driver has written it meanwhile (object stores).
    OSError
        If it cannot be written.
    """
    write_sealed(place, IDENTITY, {"format": {"name": FORMAT, "version": identity.version}, **identity.values})


def read_contents(place: Place, identity: Identity | None) -> dict[str, Any] | None:
    """Read how the rows of a run are recognised.

    Parameters
    ----------
    place : Place
        Folder or prefix of the run.
    identity : Identity or None
        The run.

    Returns
    -------
    dict or None
        JSON values; None if the run is of format 1 and has none.

    Raises
    ------
    ValueError
        If the file is missing or damaged.
    OSError
        If it cannot be read.
    """
    content = _read(place, CONTENTS)
    required = identity is not None and identity.has_checksums
    if content is None and required:
        raise ValueError(f"{place.path}: {CONTENTS} is missing beside {IDENTITY}; the run is damaged")
    return None if content is None else unsealed(content, f"{place.path}/{CONTENTS}", required)


def read_kept_state(place: Place, identity: Identity | None) -> KeptState | None:
    """Read the state of a run, and refuse that of any other run.

    Parameters
    ----------
    place : Place
        Folder or prefix of the run.
    identity : Identity or None
        The run.

    Returns
    -------
    KeptState or None
        None if the run has not kept a state yet.

    Raises
    ------
    ValueError
        If the file is damaged, or of another run.
    OSError
        If it cannot be read.
    """
    where = f"{place.path}/{STATE}"
    content = _read(place, STATE)
    if content is None:
        return None
    required = identity is not None and identity.has_checksums
    values = unsealed(content, where, required)
    versions, mark, limits = values.pop("versions", None), values.pop("run", None), values.pop("limits", {})
    if not isinstance(versions, dict | None) or not all(isinstance(v, str) for v in (versions or {}).values()):
        raise ValueError(f"{where}: damaged: versions is not an object of checksums by name")
    if not isinstance(limits, dict) or not all(type(value) in (int, float) for value in limits.values()):
        raise ValueError(f"{where}: damaged: limits is not an object of numbers by name")
    if (required or mark is not None) and mark != (identity.mark if identity is not None else None):
        raise ValueError(f"{where}: belongs to another run than {IDENTITY} beside it; restore both from one copy")
    return KeptState(values, versions, limits)


def replace_processor(place: Place, values: dict[str, Any]) -> dict[str, Any] | None:
    """Record what computes a run from now on.

    Parameters
    ----------
    place : Place
        Folder or prefix of the run.
    values : dict
        Description of the processor, as JSON values.

    Returns
    -------
    dict or None
        The description that was there before; None if there was none.

    Raises
    ------
    ValueError
        If the old description is damaged.
    OSError
        If the file cannot be read or written.
    """
    content = _read(place, PROCESSOR)
    previous = None if content is None else unsealed(content, f"{place.path}/{PROCESSOR}", required=False)
    write_sealed(place, PROCESSOR, values)
    return previous


def write_sealed(place: Place, name: str, values: dict[str, Any]) -> None:
    """Replace a file of a run by JSON values with their checksum.

    Parameters
    ----------
    place : Place
        Folder or prefix of the run.
    name : str
        Name of the file.
    values : dict
        JSON values; NaN and infinities are refused.

    Raises
    ------
    ValueError
        If a number is not finite.
    RuntimeError
        If another driver has written the file meanwhile (object stores).
    OSError
        If it cannot be written.
    """
    place.replace(name, json.dumps(sealed(values), indent=1, allow_nan=False))


def _read(place: Place, name: str) -> dict[str, Any] | None:
    text = place.read(name)
    return None if text is None else as_json(text, f"{place.path}/{name}")
