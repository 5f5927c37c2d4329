"""The skeleton of a recipe: checks of sources and target, and the command line.

A recipe module defines one function that writes the store of a `Job`, and wraps it in a `Recipe`. Imports `commands`,
`files`, `jobs`, `paper`, `shards`, `splits` and Zarr.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zarr

from vmfa_dask.data_prep.commands import run_command
from vmfa_dask.data_prep.recipes.files import existing
from vmfa_dask.data_prep.recipes.jobs import Job
from vmfa_dask.data_prep.recipes.paper import DATA_SETS
from vmfa_dask.data_prep.shards import require_place
from vmfa_dask.data_prep.splits import TEST, TRAIN

MAX_UNPACKED = {
    "--max-unpacked": {"type": int, "metavar": "BYTES", "help": "largest size that an archive may unpack to"}
}
"""Option of recipes that read archives of images."""


@dataclass(frozen=True)
class Recipe:
    """A data set of the paper and the function that writes it.

    Parameters
    ----------
    name : str
        The data set, a key of `paper.DATA_SETS`, and the name of its module.
    summary : str
        Which files it is made from, as a sentence for ``--help``.
    write : callable
        ``write(job, **options)`` writes the store of a `Job`.
    options : mapping of str to mapping
        Command-line options of this data set alone: the flag, and the keywords of ``add_argument``.
    """

    name: str
    summary: str
    write: Callable[..., None]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

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

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the command of the recipe, by default with the arguments of the process; returns its exit code."""
        chosen = vars(self._parser().parse_args(arguments))
        cluster = chosen.pop("cluster")

        def write(client: Any) -> None:
            rows, expected = self.prepare(**chosen, client=client), DATA_SETS[self.name]
            for side, n_expected in ((TRAIN, expected.train), (TEST, expected.test)):
                print(f"{side}: {rows[side]:,} images, {n_expected:,} in the paper")

        return run_command(write, cluster)

    def _parser(self) -> argparse.ArgumentParser:
        expected = DATA_SETS[self.name]
        parser = argparse.ArgumentParser(
            prog=f"python -m vmfa_dask.data_prep.recipes.{self.name}",
            description=f"{self.summary} The paper has {expected.train:,} training and {expected.test:,} test images.",
        )
        parser.add_argument("sources", nargs="+", metavar="SOURCE", help="files, or folders that hold them")
        parser.add_argument("target", metavar="TARGET.zarr", help="the new store, a group")
        parser.add_argument("--partial", action="store_true", help="accept fewer images than the paper has")
        parser.add_argument("--cluster", metavar="URL", help="Dask scheduler whose workers write the store")
        parser.add_argument("--workers", type=int, metavar="N", help="number of threads (default: one per core)")
        for flag, keywords in self.options.items():
            parser.add_argument(flag, **keywords)
        return parser
