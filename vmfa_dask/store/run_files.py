"""The files of a run, read strictly: JSON whose checksum is right, of one run, of a format that is known.

May import: store.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from vmfa_dask.store.places import Place
from vmfa_dask.store.strict import as_json, digest, sealed, unsealed

# Format 1 had no checksums. Its runs become format 2 with the first state that is kept of them.
FORMAT, FORMAT_VERSION = "vmfa_dask.run", 2
IDENTITY, CONTENTS, STATE, PROCESSOR = "run.json", "data.json", "state.json", "processor.json"


@dataclass(frozen=True)
class KeptState:
    """Where a run stands.

    Parameters
    ----------
    values : the state, plain values
    versions : digests of the stored blocks that it needs by their names; None where format 1 kept it
    """

    values: dict[str, Any]
    versions: dict[str, str] | None


@dataclass(frozen=True)
class Identity:
    """What a run is, the number of its format, and what tells it from others."""

    values: dict[str, Any]
    version: int
    mark: str


def _read(place: Place, name: str) -> dict[str, Any] | None:
    text = place.read(name)
    return None if text is None else as_json(text, f"{place.path}/{name}")


def identity_of(place: Place) -> Identity | None:
    """What the run at a place is; its format comes first, as those to come may be read in other ways."""
    known, where = _read(place, IDENTITY), f"{place.path}/{IDENTITY}"
    if known is None:
        return None
    stated = known.get("format")
    found = stated if isinstance(stated, dict) else {}
    version = found.get("version")
    if found.get("name") != FORMAT or type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise ValueError(
            f"{where}: its format version is {version}, this version of vmfa_dask reads up to "
            f"{FORMAT_VERSION}; update vmfa_dask to go on with it"
        )
    values = unsealed(known, where, version > 1)
    sections = {name: section for name, section in values.items() if name != "format"}
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise ValueError(f"{where}: damaged: {name} is {section!r:.60}, expected an object")
    return Identity(sections, version, digest(sections))


def written_identity(identity: Identity) -> dict[str, Any]:
    """What the file of an identity holds."""
    return {"format": {"name": FORMAT, "version": identity.version}, **identity.values}


def contents_of(place: Place, identity: Identity | None) -> dict[str, Any] | None:
    """What the rows of the run at a place are recognised by; None where format 1 had nothing of them."""
    known, required = _read(place, CONTENTS), identity is not None and identity.version > 1
    if known is None and required:
        raise ValueError(f"{place.path}: {CONTENTS} is missing beside {IDENTITY}; the run is damaged")
    return None if known is None else unsealed(known, f"{place.path}/{CONTENTS}", required)


def state_of(place: Place, identity: Identity | None) -> KeptState | None:
    """The state at a place, of this run alone."""
    known, where = _read(place, STATE), f"{place.path}/{STATE}"
    if known is None:
        return None
    sealed_since = identity is not None and identity.version > 1
    values = unsealed(known, where, sealed_since)
    versions, run = values.pop("versions", None), values.pop("run", None)
    if not isinstance(versions, dict | None) or not all(isinstance(v, str) for v in (versions or {}).values()):
        raise ValueError(f"{where}: damaged: versions are no checksums by name")
    if (sealed_since or run is not None) and run != (identity.mark if identity is not None else None):
        raise ValueError(f"{where}: belongs to another run than {IDENTITY} beside it; restore both from one copy")
    return KeptState(values, versions)


def replace_processor(place: Place, values: dict[str, Any]) -> dict[str, Any] | None:
    """Say what computes the run at a place from now on; what did so before, None where that is not known."""
    known = _read(place, PROCESSOR)
    before = None if known is None else unsealed(known, f"{place.path}/{PROCESSOR}", False)
    place.replace(PROCESSOR, json.dumps(sealed(values), indent=1, allow_nan=False))
    return before
