"""One call of a recipe: where it reads and writes, how strict it is, and the store of tables that it makes.

Imports `builds`, `paper`, `shards`, `source_files`, `tables` and the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vmfa_dask.data_prep.builds import begin, finish, in_work, require_unchanged
from vmfa_dask.data_prep.recipes.paper import differences, require
from vmfa_dask.data_prep.shards import require_place, write_store
from vmfa_dask.data_prep.source_files import file_fingerprint
from vmfa_dask.data_prep.tables import Outline, Table

IMAGES = ("sample", "height", "width", "channel")
LABELS = ("sample",)


@dataclass(frozen=True)
class Job:
    """One call of a recipe: where it reads and writes, and who does the work.

    Parameters
    ----------
    name : str
        The data set, a key of `paper.DATA_SETS`.
    sources : sequence of path
        Existing files and folders, absolute.
    target : path
        The new store, absolute; nothing exists there yet.
    partial : bool
        Accept missing files and counts that differ from the paper's, with a warning.
    client : distributed.Client, optional
        Workers that write the shards; by default threads of this process.
    workers : int, optional
        Number of threads; by default one per available core.
    """

    name: str
    sources: Sequence[Path]
    target: Path
    partial: bool = False
    client: Any = None
    workers: int | None = None

    def require(self, complaints: Sequence[str]) -> None:
        """Refuse what differs from the paper, or warn of it if the job is `partial`.

        Parameters
        ----------
        complaints : sequence of str
            What is missing or differs; empty if nothing does.

        Raises
        ------
        ValueError
            With all complaints, unless `partial`.
        """
        require(self.name, complaints, self.partial)

    def require_counts(self, n_images: Mapping[str, int]) -> None:
        """Compare the number of images per side with the paper's.

        Parameters
        ----------
        n_images : mapping of str to int
            Number of images of ``train`` and ``test``.

        Raises
        ------
        ValueError
            Naming each side whose number differs, unless `partial`.
        """
        self.require(differences(self.name, n_images))

    def write_tables(
        self, arrays: Mapping[str, Sequence[Table]], files: Sequence[Path], options: Sequence[Any] = ()
    ) -> None:
        """Write a group of arrays whose shapes are known, or resume writing it.

        Parameters
        ----------
        arrays : mapping of str to sequence of Table
            Images and, under names that end with ``_labels``, labels.
        files : sequence of path
            Files that the rows are read from.
        options : sequence, optional
            JSON values on which the rows depend.

        Raises
        ------
        ValueError
            If an unfinished store has other sources or options, or if sources changed during the call.
        FileExistsError
            If another process is writing the target.
        """
        require_place(self.target)  # again: opening large compressed files takes minutes
        outlines, origin = outlines_of(arrays), self.origin(files, options)
        fingerprints = [file_fingerprint(path) for path in files]
        with in_work(self.target) as unfinished:
            begin(unfinished, fingerprints, origin)
            attributes = {"sources": json.dumps(origin)}
            write_store(unfinished, outlines, attributes, client=self.client, workers=self.workers)
            require_unchanged(fingerprints, [file_fingerprint(path) for path in files])
            finish(unfinished, self.target)

    def origin(self, files: Sequence[Path], options: Sequence[Any] = ()) -> list[Any]:
        """Describe what a store is made from, for its attribute ``sources`` and for comparison on resuming.

        Parameters
        ----------
        files : sequence of path
            Files that the rows are read from.
        options : sequence, optional
            JSON values on which the rows depend.

        Returns
        -------
        list
            JSON values: the data set, (name, bytes, nanoseconds of modification) of each file, the options.
        """
        statuses = [(path, path.stat()) for path in files]
        return [self.name, [[path.name, status.st_size, status.st_mtime_ns] for path, status in statuses], *options]


def outlines_of(arrays: Mapping[str, Sequence[Table]]) -> dict[str, Outline]:
    """Name the dimensions of the arrays of a store.

    Parameters
    ----------
    arrays : mapping of str to sequence of Table
        Images and, under names that end with ``_labels``, labels.

    Returns
    -------
    dict of str to Outline
        What `shards.write_store` takes.
    """
    return {name: Outline(tables, LABELS if name.endswith("_labels") else IMAGES) for name, tables in arrays.items()}
