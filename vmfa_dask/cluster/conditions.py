"""What every worker of a run must meet: checked on all workers before it, and by the first task of each later one.

May import: kernels, run, store, cluster, distributed.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from dataclasses import dataclass

from distributed import Client, get_worker

from vmfa_dask.cluster.memory_check import room_for_cache
from vmfa_dask.cluster.package_versions import version_here
from vmfa_dask.cluster.workers import ask
from vmfa_dask.kernels.processor import Processor, how_to_agree, this_processor
from vmfa_dask.run.row_source import RowSource
from vmfa_dask.store.rows import ZarrRows

logger = logging.getLogger(__name__)

_MOST_NAMES = 5


def check_processors(client: Client, warn: bool = True) -> Processor | None:
    """Refuse workers whose processors round sums differently.

    Other models with vectors of the same width may round differently in few sums, and are logged as one warning.

    Parameters
    ----------
    client : distributed.Client
        All workers that are there now are asked.
    warn : bool
        Whether to log different models.

    Returns
    -------
    Processor or None
        That of most workers; None when none of them answers.

    Raises
    ------
    RuntimeError
        When kernels use vectors of different widths, or workers are of different architectures: sums of a run would
        then depend on which worker computes what. Widths, workers and what to set are named.
    """
    processors: dict[str, Processor] = ask(client, this_processor)
    if not processors:
        return None
    counts = Counter(processors.values())
    kinds = sorted(set(counts), key=counts.__getitem__, reverse=True)
    table = "".join(f"\n  {kind}: {_names([w for w in sorted(processors) if processors[w] == kind])}" for kind in kinds)
    if not all(kind.rounds_as(kinds[0]) for kind in kinds):
        raise RuntimeError(
            "the workers' processors round sums differently, and results would depend on which worker computes what; "
            f"{how_to_agree(kinds)}:{table}"
        )
    if kinds[0].byte_order != sys.byteorder:
        raise RuntimeError(f"this process is {sys.byteorder}-endian, and its workers are not:{table}")
    if len(kinds) > 1 and warn:
        logger.warning(
            "the workers have processors of different models; their vectors are equally wide, but some sums may round "
            "differently, and then results are not reproducible to the bit; %s:%s",
            how_to_agree(kinds),
            table,
        )
    return kinds[0]


def warn_of_idle_workers(n_groups: int, n_workers: int) -> None:
    """Log where there is not a group of rows for each worker.

    Parameters
    ----------
    n_groups : int
        Partial E-steps of a pass.
    n_workers : int
        Worker processes.
    """
    if n_groups < n_workers:
        logger.warning(
            "a pass has %d groups of rows for %d workers, of which %d have nothing to do in E-steps; n_groups=%d would "
            "give each of them some",
            n_groups,
            n_workers,
            n_workers - n_groups,
            2 * n_workers,
        )


def _names(workers: list[str]) -> str:
    more = len(workers) - _MOST_NAMES
    return ", ".join(workers[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Conditions:
    """What a worker of a run must meet; the tasks of the run carry it.

    Parameters
    ----------
    version : str
        Of this package.
    processor : Processor or None
        Of the run's workers; None where it is not known.
    total_bytes : int
        Peak memory of the run in a worker, without a cache of rows.
    shape : tuple of int
        Shape of the rows, (N, *feature_shape).
    dtype : str
        Dtype in which they are read.
    """

    version: str
    processor: Processor | None
    total_bytes: int
    shape: tuple[int, ...]
    dtype: str

    @staticmethod
    def of(processor: Processor | None, total_bytes: int, rows: RowSource) -> Conditions:
        """Conditions of a run that this process drives.

        Parameters
        ----------
        processor : Processor or None
            Of the run's workers.
        total_bytes : int
            Peak memory of the run in a worker, without a cache of rows.
        rows : RowSource
            As the driver has opened them.

        Returns
        -------
        Conditions
            With the version of this process.
        """
        return Conditions(version_here(), processor, total_bytes, (rows.n_rows, *rows.feature_shape), str(rows.dtype))

    def check_worker(self, folder: str) -> int | None:
        """Refuse this process when its tasks could not give the results of the other workers. Called by a task.

        Parameters
        ----------
        folder : str
            Path or URL through which the processes of the run exchange versions.

        Returns
        -------
        int or None
            Bytes that a cache of rows may take here; None without a limit.

        Raises
        ------
        RuntimeError
            When it has another version of this package, or rounds sums differently.
        FileNotFoundError
            When it does not see the folder.
        MemoryError
            When the run does not fit its memory limit. Each message names the worker.
        """
        worker = get_worker()
        name, version, processor = f"worker {worker.address}", version_here(), this_processor()
        if version != self.version:
            raise RuntimeError(
                f"{name} has version {version} of vmfa_dask, and the run {self.version}; install the same version "
                "there, and restart the worker"
            )
        if self.processor is not None and not processor.rounds_as(self.processor):
            raise RuntimeError(
                f"{name} computes with {processor}, the other workers of the run with {self.processor}, and they round "
                f"sums differently; {how_to_agree([processor, self.processor])}"
            )
        if "://" not in folder and not os.path.isdir(folder):
            raise FileNotFoundError(
                f"{name} does not see the folder {folder} through which processes exchange parameters; pass "
                "scratch=folder (or run=folder) that all machines share"
            )
        return room_for_cache(self.total_bytes, worker.memory_manager.memory_limit, name)

    def check_rows(self, rows: ZarrRows) -> None:
        """Refuse other rows than those of the run. Called by a task.

        Parameters
        ----------
        rows : ZarrRows
            As this process has opened them.

        Raises
        ------
        FileNotFoundError
            When their shape or dtype is another one.
        """
        shape, dtype = (rows.n_rows, *rows.feature_shape), str(rows.dtype)
        if (shape, dtype) != (self.shape, self.dtype):
            raise FileNotFoundError(
                f"worker {get_worker().address}: {rows.label}: the driver finds {self.shape} {self.dtype} there, "
                f"this worker {shape} {dtype}; pass a path or URL that leads to the same data from everywhere"
            )
