"""A local or shared folder as a `store.places.Place`: atomic by renames, durable by flushes. May import: store."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vmfa_dask.store.disk import create, flush, flush_tree, remove_file, remove_tree
from vmfa_dask.store.strict import MOST_TEXT, as_text, read_regular

# How names end while a file or tree is still being written, here or by Zarr.
PARTIAL = r"\.[0-9a-f]{8,32}\.partial"


class FolderPlace:
    """A local or shared folder.

    Parameters
    ----------
    path : str
        The folder; created when something is written.
    lasting : bool
        Whether published trees must survive a power cut. False for those that are only needed while their processes
        live.
    """

    def __init__(self, path: str, lasting: bool = True) -> None:
        self.path = os.path.abspath(path)
        self._lasting = lasting

    def probe(self) -> None:
        """Create the folder if needed, and write to it through a file that has no name and so leaves nothing behind.

        Raises
        ------
        OSError
            If that fails; the message names the folder.
        """
        with self.writing(""):
            if not os.path.isdir(self.path):
                existing = next(str(folder) for folder in Path(self.path).parents if folder.is_dir())
                os.makedirs(self.path, exist_ok=True)
                _flush_folders(os.path.dirname(self.path), existing)
            with tempfile.TemporaryFile(dir=self.path) as file:
                file.write(b"ok")
                file.flush()

    def free_bytes(self) -> int | None:
        """Free bytes of the disk."""
        return shutil.disk_usage(self.path).free

    def read(self, name: str) -> str | None:
        """Read a text file.

        Parameters
        ----------
        name : str
            Name relative to the folder.

        Returns
        -------
        str or None
            The text; None if there is no such file.

        Raises
        ------
        ValueError
            If it is not a regular file, too long, or not UTF-8.
        OSError
            If it cannot be read.
        """
        content = self.fetch(name, MOST_TEXT)
        return None if content is None else as_text(content, self.target(name))

    def fetch(self, name: str, most: int) -> bytes | None:
        """Read a file.

        Parameters
        ----------
        name : str
            Name relative to the folder.
        most : int
            Largest size in bytes that is read.

        Returns
        -------
        bytes or None
            The contents; None if there is no such file.

        Raises
        ------
        ValueError
            If it is not a regular file, or longer than `most` bytes.
        OSError
            If it cannot be read.
        """
        return read_regular(self.target(name), most)

    def replace(self, name: str, text: str) -> None:
        """Write a file by a rename, once the text is on the disk.

        Parameters
        ----------
        name : str
            Name relative to the folder.
        text : str
            New contents.

        Raises
        ------
        OSError
            If it cannot be written; the file is unchanged then.
        """
        path = self.target(name)
        partial = f"{path}{_new_suffix()}"
        with self.writing(name):
            file = create(partial)
            try:
                with file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(partial, path)
            except BaseException:
                remove_file(partial)
                raise
            flush(os.path.dirname(path))

    def take(self, name: str) -> bool:
        """Remove a file.

        Parameters
        ----------
        name : str
            Name relative to the folder.

        Returns
        -------
        bool
            Whether there was one.

        Raises
        ------
        OSError
            If it cannot be removed.
        """
        return remove_file(self.target(name))

    def target(self, name: str) -> str:
        """The path of a file or tree.

        Parameters
        ----------
        name : str
            Name relative to the folder; empty for the folder itself.

        Returns
        -------
        str
            Absolute path.
        """
        return os.path.join(self.path, *name.split("/")) if name else self.path

    def holds(self, name: str) -> bool:
        """Whether a tree is there; as it appeared by a rename, it is complete.

        Parameters
        ----------
        name : str
            Name relative to the folder.

        Returns
        -------
        bool
            True for trees of other processes too.
        """
        return os.path.exists(self.target(name))

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Let an `OSError` of the enclosed lines name the path; its type and number stay.

        Parameters
        ----------
        name : str
            What they write, relative to the folder.
        """
        try:
            yield
        except OSError as error:
            message = f"cannot be written: {error.strerror or error}"
            raise type(error)(error.errno, message, self.target(name)) from error

    def publish(self, name: str, write: Callable[[str], None]) -> None:
        """Write a tree beside its final path, and rename it once it is on the disk.

        Parameters
        ----------
        name : str
            Name relative to the folder.
        write : callable
            Called with the path to write to.

        Raises
        ------
        OSError
            Naming the path, for example when the disk is full; nothing of the tree is left then.
        """
        path = self.target(name)
        partial = f"{path}{_new_suffix()}"
        with self.writing(name):
            try:
                write(partial)
                if self._lasting:
                    flush_tree(partial)
                os.rename(partial, path)
            except BaseException as error:
                shutil.rmtree(partial, ignore_errors=True)
                # If the tree exists, another run of the same task was faster, and wrote the same bytes.
                if not isinstance(error, OSError) or not os.path.exists(path):
                    raise
            if self._lasting:
                _flush_folders(os.path.dirname(path), self.path)

    def keep(self, name: str) -> None:
        """Wait until a file that zarr has written is on the disk.

        Parameters
        ----------
        name : str
            Name relative to the folder.

        Raises
        ------
        OSError
            If the disk reports an error.
        """
        if self._lasting:
            flush(self.target(name))

    def entries(self) -> list[str]:
        """Sorted names of the files and folders at the top; empty where the folder does not exist."""
        return sorted(os.listdir(self.path)) if os.path.isdir(self.path) else []

    def children(self, name: str) -> list[str]:
        """Names of the folders one level below another one, without links.

        Parameters
        ----------
        name : str
            Name relative to the folder; empty for the folder itself.

        Returns
        -------
        list of str
            Sorted names; empty where it does not exist.
        """
        folder = self.target(name)
        if not os.path.isdir(folder):
            return []
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))

    def remove(self, name: str, pattern: re.Pattern[str] | None = None) -> None:
        """Remove a tree as far as possible, as `store.disk.remove_tree` does.

        Parameters
        ----------
        name : str
            Name relative to the folder; empty for the folder itself.
        pattern : re.Pattern or None
            Matches the names, relative to the tree, that may be removed. By default all.
        """
        remove_tree(self.target(name), pattern)


def _flush_folders(folder: str, top: str) -> None:
    """Make the names in a folder durable, and those that lead to it from `top`."""
    while True:
        with suppress(PermissionError):  # a folder that may be entered but not read
            flush(folder)
        if folder in (top, os.path.dirname(folder)):
            return
        folder = os.path.dirname(folder)


def _new_suffix() -> str:
    """The end of a name that cannot be guessed beforehand, in the form of `PARTIAL`."""
    return f".{secrets.token_hex(8)}.partial"
