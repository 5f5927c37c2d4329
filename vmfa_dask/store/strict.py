"""Strict reading of the package's own files: regular files, bounded in size, JSON with a checksum.

Anyone who can write to such a folder can put anything there. So nothing is waited for, allocated or decoded before it
is known to be of the expected kind. May import: numpy.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from typing import Any

import numpy as np

# Bytes of the metadata of one node; that of a model includes the caller's provenance.
MOST_METADATA = 2**24
# Bytes of one text file of a run; the longest ones list the stored chunks of the rows.
MOST_TEXT = 2**28
# Levels of brackets: far below what Python's own readers and writers of JSON can take.
_MOST_LEVELS = 100
_CHECKSUM = "checksum"
_RESTORE = "restore the file from a copy"


def read_regular(path: str, most: int) -> bytes | None:
    """Read a regular file in full.

    Parameters
    ----------
    path : str
        The file.
    most : int
        Largest size in bytes that is read.

    Returns
    -------
    bytes or None
        The contents; None if there is no such file.

    Raises
    ------
    ValueError
        If it is a pipe, a device, a folder or the like, or longer than `most` bytes.
    OSError
        If it cannot be read, for example because it is a link to itself.
    """
    try:
        # Without O_NONBLOCK, opening a pipe that has no writer would wait forever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise ValueError(f"{path}: expected a regular file, found a socket or the like") from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path}: expected a regular file, found a folder, a pipe, a device or the like")
        check_length(path, status.st_size, most)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(status.st_size)
    except OSError as error:
        raise type(error)(error.errno, f"cannot be read: {error.strerror}", path) from error
    finally:
        os.close(descriptor)
    return content


def check_length(where: str, length: int, most: int) -> None:
    """Refuse a file that is longer than any that the package writes.

    Parameters
    ----------
    where : str
        Path or URL, for the message.
    length, most : int
        Size of the file and the largest size allowed, in bytes.

    Raises
    ------
    ValueError
        If `length` exceeds `most`.
    """
    if length > most:
        raise ValueError(f"{where}: {length} bytes long, expected at most {most}; damaged, or not of vmfa_dask")


def as_text(content: bytes, where: str) -> str:
    """Decode UTF-8.

    Parameters
    ----------
    content : bytes
        Contents of a file.
    where : str
        Path or URL, for the message.

    Returns
    -------
    str
        The text.

    Raises
    ------
    ValueError
        If the bytes are not UTF-8; the message names the file.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: damaged: byte {error.start} is not UTF-8 text; {_RESTORE}") from error


def as_json(text: str, where: str) -> dict[str, Any]:
    """Parse a JSON object.

    Parameters
    ----------
    text : str
        Contents of a file.
    where : str
        Path or URL, for the message.

    Returns
    -------
    dict
        Members of the object.

    Raises
    ------
    ValueError
        If the text is not JSON, not an object, or nested too deeply; the message names the file.
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
    """Whether brackets are nested deeply, counting those within strings too: a cheap test for `_is_deep`."""
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
    """Hash of JSON values, independent of how they are laid out as text.

    Parameters
    ----------
    values : JSON values
        Nested dictionaries, lists, strings, numbers, booleans and None.

    Returns
    -------
    str
        SHA-256 of their canonical text, in hexadecimal.
    """
    return hashlib.sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(values: dict[str, Any]) -> dict[str, Any]:
    """Add a checksum to a JSON object.

    Parameters
    ----------
    values : dict
        Values that JSON can hold.

    Returns
    -------
    dict
        The values as JSON reads them back (tuples become lists), and the member ``checksum``.
    """
    values = json.loads(json.dumps(values))
    return {**values, _CHECKSUM: digest(values)}


def unsealed(values: dict[str, Any], where: str, required: bool) -> dict[str, Any]:
    """Verify the checksum of a JSON object and remove it.

    Parameters
    ----------
    values : dict
        What `sealed` made, or an object of an older format without a checksum.
    where : str
        Path or URL, for the message.
    required : bool
        Whether a missing checksum is an error.

    Returns
    -------
    dict
        The values without the checksum.

    Raises
    ------
    ValueError
        If the checksum does not match, or is missing and required; the message names the file.
    """
    if _CHECKSUM not in values and not required:
        return values
    content = {name: value for name, value in values.items() if name != _CHECKSUM}
    if values.get(_CHECKSUM) != digest(content):
        raise ValueError(f"{where}: its checksum does not match: edited or damaged; {_RESTORE}")
    return content
