"""What files of sources must be, how they are recognised again, and how errors name them. Standard library only."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WHOLE_BYTES = 2**20
"""Files up to this size are read whole for their checksum, of larger ones parts are."""
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
    """Refuse what is neither a file nor a folder: reading a FIFO or a terminal would wait for ever.

    Raises
    ------
    ValueError
        Naming the path and what it is.
    FileNotFoundError
        When it does not exist.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"{name} {path} does not exist") from error
    if kind in _KINDS:
        raise ValueError(f"{name} {path} is {_KINDS[kind]}, expected a regular file or a folder; write it to a file")


def file_fingerprint(path: Path) -> dict[str, Any]:
    """Return what tells a file from others, as JSON values: its path, size, time, and a checksum of it or of parts."""
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
    place = os.path.abspath(path)
    return {"path": place, "size": status.st_size, "mtime_ns": status.st_mtime_ns, "checksum": digest.hexdigest()}


def files_fingerprint(path: Path, folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Return what tells many files from others: their names, sizes and times, and the edges of up to 1,024 of them.

    Parameters
    ----------
    path : path
        The source, as it is called in errors.
    folder : path
        Where the files lie.
    names : iterable of str
        Relative to the folder. It is passed over once, and never held in memory.
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
            every = every * 2 if sampled % _SAMPLED_FILES == 0 else every  # ever fewer, as their number is not known
    checksum = f"{digest.hexdigest()}{content:032x}"
    return {"path": os.path.abspath(path), "files": n_files, "checksum": checksum}


def _edges(path: Path) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            digest.update(file.read(_SAMPLE_BYTES))
            file.seek(max(0, file.seek(0, os.SEEK_END) - _SAMPLE_BYTES))
            digest.update(file.read(_SAMPLE_BYTES))
    except OSError:  # of a file that cannot be read; the decoder will name it
        pass
    return digest.digest()


def changes(before: Sequence[Any], now: Sequence[Any]) -> str:
    """Return which of the sources changed and in what, or an empty string; fingerprints are given in their order."""
    if [entry["path"] for entry in before] != [entry["path"] for entry in now]:
        return f"its sources were {_some([entry['path'] for entry in before])}"
    found = []
    for old, new in zip(before, now, strict=True):
        differing = [key for key in old.keys() | new.keys() if old.get(key) != new.get(key)]
        if differing:
            found.append(f"{old['path']} ({', '.join(sorted(_MEANINGS.get(key, key) for key in differing))})")
    return f"changed since: {_some(found)}" if found else ""


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")


@contextmanager
def damage_named(path: Path, verdict: str = "cannot be read") -> Iterator[None]:
    """Turn what libraries raise for damaged files into a ValueError of one line that names the file.

    Errors of the system (a disk that fails, a permission) stay what they are, and get the path where they lack it.
    A lack of memory, a missing package and a ValueError that names the file already pass as they are.
    """
    try:
        yield
    except (MemoryError, ImportError):
        raise
    except OSError as error:
        if error.filename is not None or type(error) is FileNotFoundError:
            raise
        # h5py puts the errno of a failed call into its errors of damage; there the texts differ from the system's.
        if error.errno is not None and error.args[1:] == (os.strerror(error.errno),):
            raise type(error)(error.errno, error.strerror, str(path)) from error
        raise _damage(path, verdict, error) from error
    except Exception as error:  # each library has errors of its own
        if type(error) is ValueError and str(path) in str(error):
            raise
        raise _damage(path, verdict, error) from error


def _damage(path: Path, verdict: str, error: Exception) -> ValueError:
    reason = " ".join(str(error).split())[:500] or type(error).__name__
    return ValueError(f"{path} {verdict}: {reason}")


def error_line(error: BaseException) -> str:
    """Return an error as commands print it."""
    text = " ".join(str(error).split()) or "no more is known"
    return f"error: memory is short: {text}" if isinstance(error, MemoryError) else f"error: {error}"


@contextmanager
def place_named(path: Path) -> Iterator[None]:
    """Give errors of writing, such as that of a full disk, the path of what was written."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise type(error)(error.errno, os.strerror(error.errno), str(path)) from error
