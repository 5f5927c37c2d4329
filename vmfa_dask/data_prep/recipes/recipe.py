"""The skeleton of a recipe: checks of sources and target.

A recipe module defines one function that writes the store of a `Job`, and wraps it in a `Recipe`. Imports `files`,
`jobs`, `shards`, `splits` and Zarr.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zarr

from vmfa_dask.data_prep.recipes.files import existing
from vmfa_dask.data_prep.recipes.jobs import Job
from vmfa_dask.data_prep.shards import require_place
from vmfa_dask.data_prep.splits import TEST, TRAIN


@dataclass(frozen=True)
class Recipe:
    """A data set of the paper and the function that writes it.

    Parameters
    ----------
    name : str
        The data set, a key of `paper.DATA_SETS`, and the name of its module.
    write : callable
        ``write(job, **options)`` writes the store of a `Job`.
    """

    name: str
    write: Callable[..., None]

    def prepare(
        self,
        sources: Sequence[str | os.PathLike[str]],
        target: str | os.PathLike[str],
        *,
        partial: bool = False,
        client: Any = None,
        workers: int | None = None,
        **options: Any,
    ) -> dict[str, int]:
        """Write the data set as a Zarr group of ``train`` and ``test``.

        The store appears when it is complete; until then it is ``TARGET.partial``, from which the same call resumes.

        Parameters
        ----------
        sources : sequence of path
            Files, or folders that hold them.
        target : path
            The new store.
        partial : bool
            Accept missing files and counts that differ from the paper's, with a warning.
        client : distributed.Client, optional
            Workers that write the shards; they must see sources and target. By default threads of this process write.
        workers : int, optional
            Number of threads; by default one per available core.
        **options
            Keywords of the data set's own function `write`.

        Returns
        -------
        dict of str to int
            Rows of ``train`` and ``test``.

        Raises
        ------
        ValueError
            If an argument is out of range; if something is missing, damaged or differs from the paper, naming it.
        FileExistsError
            If there is something at `target`, or another process is writing it.
        FileNotFoundError
            If a source, or the folder of `target`, does not exist.
        """
        paths, absolute = existing(sources), Path(target).absolute()
        require_place(absolute)
        self.write(Job(self.name, paths, absolute, partial, client, workers), **options)
        return {side: zarr.open_array(absolute / side, mode="r").shape[0] for side in (TRAIN, TEST)}
