"""What a task of a run works with in its process: rows, plan, settings, storage, cores, and the current model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.em.guided import SearchOptions
from vmfa_dask.em.m_step import Constraint
from vmfa_dask.em.noise import NOISE_MODELS
from vmfa_dask.em.packed import ModelVersion, PackedMixture, Screening
from vmfa_dask.em.screening import FEWEST_FEATURES, part_of_pass, screening_of
from vmfa_dask.run.packed_versions import read_evaluated
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.row_order import rows_in_order
from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.stages import Stage, StageStorage
from vmfa_dask.run.step import Step
from vmfa_dask.run.storage import Storage
from vmfa_dask.run.versions import read_graph, read_mixture
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Centers, Float64, Mixture, NeighborGraph

Made = TypeVar("Made")


class RunContext:
    """The run as one process sees it. Loads each version once; safe to use from several threads.

    Parameters
    ----------
    rows : RowSource
        The training rows.
    settings, plan : Settings, Plan
        What is trained, and how rows and components are cut.
    storage : Storage
        Versions of parameters, graphs and posteriors.
    cores : Cores
        Threads of this process.
    copies : Storage, optional
        Where re-ordered rows are; by default the storage of the versions.
    """

    def __init__(
        self,
        rows: RowSource,
        settings: Settings,
        plan: Plan,
        storage: Storage,
        cores: Cores,
        copies: Storage | None = None,
    ) -> None:
        self.copies = storage if copies is None else copies
        self._rows_in_order: RowSource | None = None
        self.rows, self.settings, self.plan, self.storage, self.cores = rows, settings, plan, storage, cores
        self.buffers = BufferPool()
        self._lock = threading.RLock()
        self._for_start: dict[str, Any] = {}
        self._evaluated: tuple[Centers, PackedMixture] | None = None
        self._graph: tuple[int, NeighborGraph] | None = None
        self._screening: tuple[int, Screening] | None = None
        self._stage: tuple[Stage, RunContext] | None = None

    def stage(self, stage: Stage) -> RunContext:
        """A stage of this run as this process sees it.

        Parameters
        ----------
        stage : Stage
            Its name and settings.

        Returns
        -------
        RunContext
            The same object in each call for the last stage, as the model that it has loaded is large.
        """
        with self._lock:
            if self._stage is None or self._stage[0] != stage:
                storage = StageStorage(self.storage, stage)
                self._stage = stage, RunContext(self.rows, stage.settings, self.plan, storage, self.cores)
            return self._stage[1]

    def rows_in_order(self) -> RowSource:
        """The rows that passes read: those of the run in the order of their cells, if it has begun with cells.

        Returns
        -------
        RowSource
        """
        with self._lock:
            if self._rows_in_order is None:
                self._rows_in_order = rows_in_order(self.rows, self.plan, self.storage, self.copies)
            return self._rows_in_order

    def for_start(self, name: str, make: Callable[[], Made]) -> Made:
        """What several tasks of the start need in this process; it is forgotten when the first pass begins.

        Parameters
        ----------
        name : str
            What it is.
        make : callable
            Makes it, in the first call with this name.

        Returns
        -------
        object
            What `make` has returned.
        """
        with self._lock:
            if name not in self._for_start:
                self._for_start[name] = make()
            made: Made = self._for_start[name]
            return made

    def offset(self) -> Float64:
        """Global offset of the run.

        Returns
        -------
        (D,) float64 array
        """
        return self.storage.read(addresses.RowSurvey())["offset"]

    def scales(self) -> Float64:
        """Units of the features: their spread where the run standardizes, else 1.

        Returns
        -------
        (D,) float64 array
        """
        if not self.settings.standardize:
            return np.ones(n_features_of(self.rows))
        return self.storage.read(addresses.RowSurvey())["scales"]

    def lowest_variances(self) -> Float64:
        """Smallest noise variance of each feature.

        Returns
        -------
        (D,) float64 array
            In squared units of the data.
        """
        lowest = self.settings.reg_covar * self.scales() ** 2
        floors = self.storage.read(addresses.RowSurvey()).get("floors")  # runs of version 0.1.0 have none
        return np.maximum(lowest, floors) if self.settings.standardize and floors is not None else lowest

    def constraint(self) -> Constraint:
        """What the M-steps of this run must respect.

        Returns
        -------
        Constraint
        """
        settings = self.settings
        noise = NOISE_MODELS[settings.covariance_type, settings.noise]
        return Constraint(noise, self.lowest_variances(), self.scales(), settings.learn_weights)

    def search_options(self, step: Step) -> SearchOptions:
        """How the E-steps of a pass search.

        Parameters
        ----------
        step : Step
            The pass.

        Returns
        -------
        SearchOptions
        """
        settings = self.settings
        return SearchOptions(
            exhaustive=settings.search == "exhaustive",
            truncation=settings.truncation,
            neighborhoods=settings.neighborhoods,
            size=settings.search_size,
            random_candidates=settings.random_candidates,
            search_every=settings.search_every,
            by_divergence=settings.similarity == "kl",
            random_state=settings.random_state,
            tile_rows=self.plan.tile_rows,
            iteration=step.iteration,
            search=step.search,
        )

    def model(self, step: Step) -> ModelVersion:
        """All that a pass evaluates rows with.

        Parameters
        ----------
        step : Step
            The pass.

        Returns
        -------
        ModelVersion
        """
        with self._lock:
            graph = self.graph(step.graph)
            return ModelVersion(*self._of_version(step.parameters), graph, self._screening_of(step))

    def _screening_of(self, step: Step) -> Screening | None:
        """What a pass screens candidates with; None where it does not."""
        settings, n_features = self.settings, n_features_of(self.rows)
        if not (settings.screening and step.search and settings.search == "guided" and n_features >= FEWEST_FEATURES):
            return None
        version, part = step.parameters, part_of_pass(step.iteration, settings.search_every)
        if self._screening is None or (self._screening[0], self._screening[1].part) != (version, part):
            self._screening = version, screening_of(self.packed(version), n_features, part, self.cores)
        return self._screening[1]

    def _of_version(self, version: int) -> tuple[Centers, PackedMixture]:
        with self._lock:
            if self._evaluated is None or self._evaluated[0].version != version:
                self._stage, self._for_start = None, {}  # a run that has parameters is past its start
                self._evaluated = None  # so that its memory serves the next one
                run = (self.storage, self.settings, self.plan)
                self._evaluated = read_evaluated(*run, version, self.cores, self.buffers)
            return self._evaluated

    def release(self) -> None:
        """Drop what the last pass has left in memory; another one would make it again."""
        with self._lock:
            self._evaluated = self._stage = self._graph = self._screening = None
            self._for_start = {}
            self.buffers.clear()

    def centers(self, version: int) -> Centers:
        """Weights and means of a version.

        Parameters
        ----------
        version : int
            Its number.

        Returns
        -------
        Centers
        """
        return self._of_version(version)[0]

    def packed(self, version: int) -> PackedMixture:
        """Packed form of a version.

        Parameters
        ----------
        version : int
            Its number.

        Returns
        -------
        PackedMixture
        """
        return self._of_version(version)[1]

    def mixture(self, version: int) -> Mixture:
        """All parameters of a version, which no pass needs: as large as the model, and made anew in each call.

        Parameters
        ----------
        version : int
            Its number.

        Returns
        -------
        Mixture
            Assembled from its component blocks.
        """
        return read_mixture(self.storage, self.settings, self.plan, self.rows.feature_shape, version, self.buffers)

    def graph(self, version: int) -> NeighborGraph:
        """Neighbour graph of a version.

        Parameters
        ----------
        version : int
            Its number.

        Returns
        -------
        NeighborGraph
        """
        with self._lock:
            if self._graph is None or self._graph[0] != version:
                self._graph = version, read_graph(self.storage, self.settings, self.plan, version)
            return self._graph[1]
