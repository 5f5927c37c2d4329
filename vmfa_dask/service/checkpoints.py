"""Keeping a run: the arrays of a state are written to the run's folder, then the file that names the state.

May import: kernels, run, store, service.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from vmfa_dask.kernels.processor import Processor
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import Start, write_given_start
from vmfa_dask.run.state import DONE, FINAL, RunState
from vmfa_dask.run.storage import Arrays, Storage
from vmfa_dask.run.versions import needed_by
from vmfa_dask.service.same_run import EXTENSIBLE
from vmfa_dask.store.places import place_at
from vmfa_dask.store.run_files import STATE, KeptState, replace_processor
from vmfa_dask.store.runs import RunFolder
from vmfa_dask.store.version_store import digest_of

logger = logging.getLogger(__name__)


class RunStopped(RuntimeError):
    """A run ended because it was asked to; it can be resumed."""


class KeptRun:
    """A run with a folder: finds its last state, and keeps each state that is due.

    Parameters
    ----------
    folder : RunFolder
        Of the run, locked by this process.
    begun : KeptState or None
        The state that was found there.
    settings : Settings
        Of the run.
    plan : Plan
        Of the run.
    share : float
        Share of the run's time that keeping it may take; 1 keeps every state.

    Attributes
    ----------
    path : str
        Folder or URL of the run.
    remote : bool
        Whether it is in an object store.
    n_kept : int or None
        Number of passes that are kept; None where nothing is.
    """

    def __init__(
        self, folder: RunFolder, begun: KeptState | None, settings: Settings, plan: Plan, share: float
    ) -> None:
        self._folder, self._begun, self._settings, self._plan = folder, begun, settings, plan
        self.path = folder.path
        self.remote = "://" in folder.path
        self._durable = folder.versions(len(plan.component_blocks))
        self._working: Storage = self._durable
        self._latest: RunState | None = None
        self.n_kept: int | None = None
        # The first state is kept at once: seeding can take as long as many passes.
        self._patience, self._last, self._cost = 1.0 / share - 1.0, time.monotonic(), 0.0

    @property
    def seconds_since_kept(self) -> float | None:
        """Age of what is kept; None where nothing is."""
        return None if self.n_kept is None else time.monotonic() - self._last

    def exchange(self, name: str) -> str:
        """Make a place in the run's folder where processes exchange versions; those of killed drivers are removed.

        Parameters
        ----------
        name : str
            Of the run on its cluster.

        Returns
        -------
        str
            Path or URL.

        Raises
        ------
        OSError
            When it cannot be written.
        """
        return self._folder.exchange(name)

    def remove_exchange(self) -> None:
        """Remove the versions that processes have exchanged."""
        self._folder.remove_exchanges()

    def attach(self, working: Storage) -> RunState | None:
        """Copy the last kept state to the storage of the run, and keep states from there.

        Parameters
        ----------
        working : Storage
            Where the tasks of the run write.

        Returns
        -------
        RunState or None
            The state to resume from; None where no pass was completed.

        Raises
        ------
        ValueError
            When the kept state is damaged or incomplete.
        """
        self._working = working
        if self._begun is None:
            return None
        state = state_from(self.path, self._begun.values)
        self._copy(state, self._durable, working, self._begun.versions)
        self.n_kept = len(state.records)
        return state.reopened(self._settings)

    def note_processor(self, processor: Processor | None) -> None:
        """Note the processor in the run's folder, and warn where another one has computed the run so far.

        Parameters
        ----------
        processor : Processor or None
            Of the workers; nothing happens where it is not known.

        Raises
        ------
        OSError
            When the folder cannot be written.
        """
        if processor is None:
            return
        facts = asdict(processor)
        before = replace_processor(place_at(self.path), facts)
        if before is not None and before != facts and self._begun is not None:
            logger.warning(
                "%s: the run was computed with %s, and goes on with %s: its results may differ in their last bits from "
                "those of a run on one kind of processor",
                self.path,
                f"{before.get('model')} (vectors of {before.get('vector_bits')} bits)",
                processor,
            )

    def keep(self, state: RunState) -> None:
        """Keep a state if it is due: when the run is done, or has computed long enough for the cost of keeping.

        Parameters
        ----------
        state : RunState
            After a complete pass.

        Raises
        ------
        OSError
            When the folder cannot be written.
        """
        self._latest = state
        if state.phase == DONE or time.monotonic() - self._last >= self._patience * self._cost:
            self.keep_latest()

    def check_stop(self, record: IterationRecord) -> None:
        """End the run after a pass if it was asked to stop.

        Parameters
        ----------
        record : IterationRecord
            Of the pass.

        Raises
        ------
        RunStopped
            When there is more to do.
        """
        if record.phase != FINAL and self._folder.stop_requested():
            raise RunStopped(f"{self.path}: stopped after pass {record.iteration}, as was asked for")

    def keep_latest(self) -> None:
        """Keep the last complete pass, if it is not kept yet.

        Raises
        ------
        OSError
            When the folder cannot be written.
        """
        state, begin = self._latest, time.monotonic()
        if state is None:
            return
        versions = self._copy(state, self._working, self._durable)
        self._folder.write_state(state.as_dict(), versions, **self._limits())
        self._latest, self.n_kept = None, len(state.records)
        self._durable.keep_only(state.needed())
        self._last = time.monotonic()
        self._cost = self._last - begin

    def begin_with(self, start: Start) -> None:
        """Keep a given start as the first state; nothing happens where the run has begun.

        Parameters
        ----------
        start : Start
            With all its arrays.

        Raises
        ------
        OSError
            When the folder cannot be written.
        """
        if self._begun is None:
            units: Arrays | None = {} if self._settings.standardize else None  # the driver surveys the rows
            write_given_start(self._durable, self._settings, self._plan, start, units)
            state = RunState.first(self._settings, self._settings.n_components)
            self._folder.write_state(state.as_dict(), self._copy(state, self._durable, None), **self._limits())

    def _limits(self) -> dict[str, float]:
        """For those who look at the run: `run.json` has no settings that a call may change."""
        return {name: getattr(self._settings, name) for name in EXTENSIBLE}

    def _copy(
        self, state: RunState, source: Storage, target: Storage | None, expected: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Copy what a state needs to a target, if there is one; returns digests of the blocks by their names.

        `expected` are the digests with which the state was kept; None where they are not known.
        """
        digests = dict[str, str]()
        for address, needed in needed_by(state, self._settings, self._plan):
            name = self._durable.name_of(address)
            if expected is not None and name not in expected and not needed:
                continue  # a driver was killed before the state that has it
            try:
                arrays = source.read(address)
            except KeyError as error:
                if not needed and expected is None:
                    continue
                raise ValueError(f"{self.path}: {address} is missing; the run is incomplete") from error
            digests[name] = digest_of(arrays)
            if expected is not None and digests[name] != expected.get(name):
                raise ValueError(
                    f"{self.path}: {address} is damaged, or of another run or pass: it is not what {STATE} was kept "
                    "with; restore the whole folder from one copy"
                )
            if target is not None:
                target.write(address, {name: array.view() for name, array in arrays.items()})
        return digests


def state_from(path: str, values: dict[str, Any]) -> RunState:
    """Make a state of its stored values.

    Parameters
    ----------
    path : str
        Folder or URL of the run, for messages.
    values : dict
        As they were stored.

    Returns
    -------
    RunState
        The state.

    Raises
    ------
    ValueError
        Naming the file and the damaged field.
    """
    try:
        return RunState.from_dict(values)
    except ValueError as error:
        raise ValueError(f"{path}/{STATE}: damaged: {error}; restore the file from a copy") from error


def settings_from(values: Mapping[str, Any]) -> Settings:
    """Make settings of values that were stored or sent.

    Parameters
    ----------
    values : mapping of str to object
        By name; JSON and messages have lists for tuples. Settings that other versions had are left out.

    Returns
    -------
    Settings
    """
    known = {field.name: values[field.name] for field in fields(Settings) if field.name in values}
    plain: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
    return Settings(**plain)
