"""What a task of a run works with in its process: rows, plan, settings, storage, cores, and the current model."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.em.plan import Plan
from vmfa_dask.em.precision import Precision, derive
from vmfa_dask.em.rows import RowSource, n_features_of
from vmfa_dask.em.settings import Settings
from vmfa_dask.em.splitting import read_patch, split_neighbors, split_parameters
from vmfa_dask.em.stages import Stage, StageStorage
from vmfa_dask.em.storage import GRAPH, PARAMETERS, START, Arrays, Storage
from vmfa_dask.em.threads import Cores
from vmfa_dask.memory import Memory
from vmfa_dask.values import Float64, Mixture, Moments, NeighborGraph

PARAMETER_NAMES = ("weights", "means", "loadings", "noise_variances")


@dataclass(frozen=True)
class Step:
    """One pass over the rows.

    Parameters
    ----------
    iteration : number of the pass; it reads the posteriors of ``iteration`` and writes those of ``iteration + 1``
    parameters, graph : versions of the mixture and of the neighbour graph to use
    search : evaluate search spaces and update g_c; without it the kept components alone are evaluated
    update : compute moments and update the parameters
    """

    iteration: int
    parameters: int
    graph: int
    search: bool
    update: bool


class RunContext:
    """The run as one process sees it. Loads each version once; safe to use from several threads."""

    def __init__(self, rows: RowSource, settings: Settings, plan: Plan, storage: Storage, cores: Cores) -> None:
        self.rows, self.settings, self.plan, self.storage, self.cores = rows, settings, plan, storage, cores
        self.memory = Memory()
        self._lock = threading.RLock()
        self._mixture: Mixture | None = None
        self._precision: tuple[int, Precision] | None = None
        self._graph: tuple[int, NeighborGraph] | None = None
        self._stage: tuple[Stage, RunContext] | None = None

    def stage(self, stage: Stage) -> RunContext:
        """A stage of this run as this process sees it; the last one stays, as what it has loaded is large."""
        with self._lock:
            if self._stage is None or self._stage[0] != stage:
                storage = StageStorage(self.storage, stage)
                self._stage = stage, RunContext(self.rows, stage.settings, self.plan, storage, self.cores)
            return self._stage[1]

    def offset(self) -> Float64:
        """Global offset of the run, (D,) float64."""
        return self.storage.read(START, 0, 0)["offset"]

    def scales(self) -> Float64:
        """Units of the features, (D,) float64: their spread where the run standardizes, else 1."""
        if not self.settings.standardize:
            return np.ones(n_features_of(self.rows))
        return self.storage.read(START, 0, 0)["scales"]

    def lowest_variances(self) -> Float64:
        """Smallest noise variance of each feature, (D,) float64, in squared units of the data."""
        lowest = self.settings.reg_covar * self.scales() ** 2
        floors = self.storage.read(START, 0, 0).get("floors")  # runs of version 0.1.0 have none
        return np.maximum(lowest, floors) if self.settings.standardize and floors is not None else lowest

    def mixture(self, version: int) -> Mixture:
        """Parameters of a version, put together from their component blocks."""
        with self._lock:
            if self._mixture is None or self._mixture.version != version:
                self._stage = None  # a run that has parameters is past its stages
                self._mixture = None  # its memory serves the next one
                place = (self.storage, self.settings, self.plan, self.rows.feature_shape)
                self._mixture = read_mixture(*place, version, self.memory)
            return self._mixture

    def precision(self, version: int) -> Precision:
        """Derived arrays of a version."""
        with self._lock:
            mixture = self.mixture(version)
            if self._precision is None or self._precision[0] != version:
                self._precision = None  # its memory serves the next one
                self._precision = version, derive(mixture, self.cores, self.memory)
            return self._precision[1]

    def empty_moments(self, dtype: str) -> Moments:
        """Unwritten memory for the moments of all components."""
        c, h = self.settings.n_components, self.settings.n_factors
        sums = self.memory.empty((c, h + 2, n_features_of(self.rows)), dtype)
        return Moments(np.empty(c), np.empty((c, h + 1, h + 1)), sums)

    def graph(self, version: int) -> NeighborGraph:
        """Neighbour graph of a version."""
        with self._lock:
            if self._graph is None or self._graph[0] != version:
                blocks = [self.storage.read(GRAPH, version, b) for b in range(len(self.plan.component_blocks))]
                neighbors = np.concatenate([block["neighbors"] for block in blocks])
                patch = _patch(self.storage, self.settings, GRAPH, version, len(blocks) + 1)
                if patch is not None:
                    neighbors = split_neighbors(neighbors, patch)
                self._graph = version, NeighborGraph(neighbors)
            return self._graph[1]


def read_mixture(
    storage: Storage,
    settings: Settings,
    plan: Plan,
    feature_shape: tuple[int, ...],
    version: int,
    memory: Memory | None = None,
) -> Mixture:
    """Parameters of a version, put together from their component blocks, in memory from `memory` if it is given."""
    memory = memory or Memory()
    blocks = [storage.read(PARAMETERS, version, b) for b in range(len(plan.component_blocks))]
    names = [name for name in PARAMETER_NAMES if name in blocks[0]]
    whole = {name: _joined([block[name] for block in blocks], memory) for name in names}
    if "noise_variances" not in whole:  # shared by all components, in a block of its own
        shared = storage.read(PARAMETERS, version, len(blocks))["noise_variances"]
        whole["noise_variances"] = np.tile(shared, (len(whole["weights"]), 1))
    patch = _patch(storage, settings, PARAMETERS, version, len(blocks) + 1)
    if patch is not None:
        split_parameters(whole, patch, settings, version)
    offset = storage.read(START, 0, 0)["offset"]
    return Mixture(**whole, feature_shape=feature_shape, offset=offset, version=version)


def _joined(parts: list[NDArray[Any]], memory: Memory) -> NDArray[Any]:
    """Component blocks one after the other; a copy, as stored arrays end with their version."""
    whole = memory.empty((sum(len(part) for part in parts), *parts[0].shape[1:]), parts[0].dtype)
    return np.concatenate(parts, out=whole)


def _patch(storage: Storage, settings: Settings, kind: str, version: int, block: int) -> Arrays | None:
    """Components that were split on the way to a version, beside its component blocks."""
    return read_patch(storage, kind, version, block) if settings.empty_components == "split" else None
