"""How files of the package's own formats are read: from regular files, within bounds, as JSON with a checksum.

Whoever can write into such a folder can put anything there. Nothing is waited for, no memory is taken, and nothing is
decoded before it is known to be of the expected kind. May import: numpy.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from typing import Any

import numpy as np

# Metadata of one node; those of a model hold what the caller says of its origin.
MOST_METADATA = 2**24
# Text of one file of a run; the longest ones list the stored chunks of the rows.
MOST_TEXT = 2**28
# Levels of brackets: far below what Python's own readers and writers of JSON bear.
_MOST_LEVELS = 100
_CHECKSUM = "checksum"
_RESTORE = "restore the file from a copy"


def read_regular(path: str, most: int) -> bytes | None:
    """All of a regular file; None where there is none.

    Raises
    ------
    ValueError
        When it is a pipe, a device, a folder or the like, or longer than `most` bytes.
    OSError
        When it cannot be read; for example a link that leads to itself.
    """
    try:
        # A pipe that nobody writes to would be waited for without O_NONBLOCK.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise ValueError(f"{path}: expected a regular file, found a socket or the like") from error
        raise
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError(f"{path}: expected a regular file, found a folder, a pipe, a device or the like")
        check_length(path, about.st_size, most)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(about.st_size)
    except OSError as error:
        raise type(error)(error.errno, f"cannot be read: {error.strerror}", path) from error
    finally:
        os.close(descriptor)
    return content


def check_length(where: str, length: int, most: int) -> None:
    """Refuse what is longer than anything that the package writes."""
    if length > most:
        raise ValueError(f"{where}: {length} bytes long, expected at most {most}; damaged or not of vmfa_dask")


def as_text(content: bytes, where: str) -> str:
    """Bytes as UTF-8.

    Raises
    ------
    ValueError
        Naming the file.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: damaged: byte {error.start} is no text in UTF-8; {_RESTORE}") from error


def as_json(text: str, where: str) -> dict[str, Any]:
    """Text as a JSON object.

    Raises
    ------
    ValueError
        Naming the file, and what is wrong with it.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: damaged: not readable as JSON ({error}); {_RESTORE}") from error
    if _may_be_deep(text) and _is_deep(values):
        raise ValueError(f"{where}: damaged: more than {_MOST_LEVELS} levels of brackets; {_RESTORE}")
    if not isinstance(values, dict):
        raise ValueError(f"{where}: damaged: a JSON {type(values).__name__}, expected an object; {_RESTORE}")
    return values


def _may_be_deep(text: str) -> bool:
    """Whether brackets are nested deeply; those within strings count here."""
    characters = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
    steps = np.isin(characters, [*b"[{"]).astype(np.int8) - np.isin(characters, [*b"]}"])
    return bool(len(steps)) and int(np.cumsum(steps, dtype=np.int64).max()) > _MOST_LEVELS


def _is_deep(values: Any) -> bool:
    """Whether lists and objects are nested deeply."""
    level = [values]
    for _ in range(_MOST_LEVELS):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(value, dict | list) for value in level)


def digest(values: Any) -> str:
    """A hash of JSON values, however they are laid out as text."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(values: dict[str, Any]) -> dict[str, Any]:
    """JSON values with their checksum."""
    values = json.loads(json.dumps(values))
    return {**values, _CHECKSUM: digest(values)}


def unsealed(values: dict[str, Any], where: str, required: bool) -> dict[str, Any]:
    """Values whose checksum is right, without it; a missing one counts as right unless it is required.

    Raises
    ------
    ValueError
        Naming the file.
    """
    if _CHECKSUM not in values and not required:
        return values
    content = {name: value for name, value in values.items() if name != _CHECKSUM}
    if values.get(_CHECKSUM) != digest(content):
        raise ValueError(f"{where}: its checksum does not match: edited or damaged; {_RESTORE}")
    return content
