"""Files of sources: which are accepted, their fingerprints, and errors that name them. Standard library only."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WHOLE_BYTES = 2**20
"""The checksum covers all of a file of up to this size, and parts of a larger one."""
_EDGE_BYTES, _BLOCK_BYTES, _N_BLOCKS = 2**16, 2**14, 16
_SAMPLED_FILES, _SAMPLE_BYTES = 1024, 4096
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_MEANINGS = {"size": "size", "mtime_ns": "time", "checksum": "content"}


def require_readable(path: Path, name: str = "source") -> None:
    """Refuse anything but files and folders: reading a FIFO or a terminal would wait forever.

    Parameters
    ----------
    path : path
        The source.
    name : str
        Name of the argument, for errors.

    Raises
    ------
    ValueError
        If it is a FIFO, a socket or a device.
    FileNotFoundError
        If it does not exist.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"{name} {path} does not exist") from error
    if kind in _KINDS:
        raise ValueError(f"{name} {path} is {_KINDS[kind]}, expected a regular file or a folder; save it as a file")


def file_fingerprint(path: Path) -> dict[str, Any]:
    """Identify a file and its content.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    dict
        JSON values: path, size in bytes, time of modification in nanoseconds, and a checksum, which covers only
        parts of files larger than `WHOLE_BYTES`.
    """
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_size <= WHOLE_BYTES:
            blocks = [(0, status.st_size)]
        else:
            step = (status.st_size - _BLOCK_BYTES) / (_N_BLOCKS - 1)
            blocks = [(int(k * step), _BLOCK_BYTES) for k in range(_N_BLOCKS)]
            blocks += [(0, _EDGE_BYTES), (status.st_size - _EDGE_BYTES, _EDGE_BYTES)]
        for start, n_bytes in blocks:
            file.seek(start)
            digest.update(file.read(n_bytes))
    return {
        "path": os.path.abspath(path),
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "checksum": digest.hexdigest(),
    }


def files_fingerprint(path: Path, folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Identify many files: by names, sizes and times, and by the first and last bytes of some 1,024 of them.

    Parameters
    ----------
    path : path
        The source, for errors.
    folder : path
        The folder of the files.
    names : iterable of str
        Paths relative to the folder; iterated once, and never held in memory.

    Returns
    -------
    dict
        JSON values: path, number of files, and a checksum.
    """
    digest, content, sampled, n_files, every = hashlib.blake2b(digest_size=16), 0, 0, 0, 1
    for n_files, name in enumerate(names, 1):
        digest.update(os.fsencode(name) + b"\0")
        try:
            status = (folder / name).lstat()
        except (OSError, ValueError):
            digest.update(b"missing")
            continue
        digest.update(f"{status.st_mode} {status.st_size} {status.st_mtime_ns}".encode())
        if stat.S_ISREG(status.st_mode) and n_files % every == 0:
            content ^= int.from_bytes(_edges(folder / name), "little") * (2 * n_files + 1) % 2**128
            sampled += 1
            if sampled % _SAMPLED_FILES == 0:  # ever more rarely, as the number of files is not known
                every *= 2
    checksum = f"{digest.hexdigest()}{content:032x}"
    return {"path": os.path.abspath(path), "files": n_files, "checksum": checksum}


def _edges(path: Path) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            digest.update(file.read(_SAMPLE_BYTES))
            file.seek(max(0, file.seek(0, os.SEEK_END) - _SAMPLE_BYTES))
            digest.update(file.read(_SAMPLE_BYTES))
    except OSError:  # the decoder will name the file that cannot be read
        pass
    return digest.digest()


def changes(before: Sequence[Any], now: Sequence[Any]) -> str:
    """Say which sources changed, and how.

    Parameters
    ----------
    before, now : sequence of dict
        Fingerprints in the order of the sources.

    Returns
    -------
    str
        Names the first three; empty if nothing changed.
    """
    if [entry["path"] for entry in before] != [entry["path"] for entry in now]:
        return f"its sources were {_some([entry['path'] for entry in before])}"
    texts = []
    for old, new in zip(before, now, strict=True):
        differing = [key for key in old.keys() | new.keys() if old.get(key) != new.get(key)]
        if differing:
            texts.append(f"{old['path']} ({', '.join(sorted(_MEANINGS.get(key, key) for key in differing))})")
    return f"changed since: {_some(texts)}" if texts else ""


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")


@contextmanager
def damage_named(path: Path, verdict: str = "cannot be read") -> Iterator[None]:
    """Turn the errors that libraries raise for damaged files into a ValueError of one line that names the file.

    System errors (a failing disk, a missing permission) keep their type, and get the path if they lack it. MemoryError,
    ImportError and a ValueError that already names the file pass unchanged.

    Parameters
    ----------
    path : path
        The file.
    verdict : str
        What the message says of the file.

    Raises
    ------
    ValueError
        ``PATH VERDICT: reason``.
    OSError
        A system error, with the path.
    """
    try:
        yield
    except (MemoryError, ImportError):
        raise
    except OSError as error:
        if error.filename is not None or type(error) is FileNotFoundError:
            raise
        # h5py's errors of damage carry the errno of a failed call, but not the system's text for it.
        if error.errno is not None and error.args[1:] == (os.strerror(error.errno),):
            raise type(error)(error.errno, error.strerror, str(path)) from error
        raise _damage(path, verdict, error) from error
    except Exception as error:  # each library has its own errors
        if type(error) is ValueError and str(path) in str(error):
            raise
        raise _damage(path, verdict, error) from error


def _damage(path: Path, verdict: str, error: Exception) -> ValueError:
    reason = " ".join(str(error).split())[:500] or type(error).__name__
    return ValueError(f"{path} {verdict}: {reason}")


@contextmanager
def place_named(path: Path) -> Iterator[None]:
    """Add the path to errors of writing, such as that of a full disk.

    Parameters
    ----------
    path : path
        What is being written.

    Raises
    ------
    OSError
        The same error, with the path.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise type(error)(error.errno, os.strerror(error.errno), str(path)) from error
