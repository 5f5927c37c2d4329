"""Keeping a run: what a state needs is written to the run's folder, then the marker moves.

May import: em, store.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from vmfa_dask.kernels.processor import Processor
from vmfa_dask.run.plan import Plan, make_plan
from vmfa_dask.run.projection import kept_bytes
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.row_source import RowSource
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import Start, write_given_start
from vmfa_dask.run.state import DONE, FINAL, RunState
from vmfa_dask.run.storage import Arrays, Storage
from vmfa_dask.run.versions import needed_by
from vmfa_dask.service.contents import recognize
from vmfa_dask.service.inputs import BegunStart, describe_rows, describe_start
from vmfa_dask.service.options import Options
from vmfa_dask.service.same_run import check_same_start, same_plan, settings_of_run, stored_plan
from vmfa_dask.store.places import place_at
from vmfa_dask.store.run_files import STATE, KeptState, replace_processor
from vmfa_dask.store.runs import RunFolder
from vmfa_dask.store.version_store import digest_of

logger = logging.getLogger(__name__)


class RunStopped(RuntimeError):
    """A run ended because it was asked to; it can go on."""


class KeptRun:
    """A run with a folder: finds where it stands, and keeps each state that is due.

    Parameters
    ----------
    folder : the run's folder, locked by this process
    begun : the state that was found there, if any
    settings, plan : the run
    share : part of the time of the run that keeping it may take; 1 keeps every state

    Attributes
    ----------
    n_kept : passes up to which the run is kept; None where nothing is
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

    def exchange(self, name: str) -> str:
        """Path or URL at which processes exchange the versions in work; those that killed drivers left are removed."""
        return self._folder.exchange(name)

    def remove_exchange(self) -> None:
        """Remove the versions in work."""
        self._folder.remove_exchanges()

    def attach(self, working: Storage) -> RunState | None:
        """Work with this storage from now on; the state to go on from, None where no pass was completed."""
        self._working = working
        if self._begun is None:
            return None
        state = state_from(self.path, self._begun.values)
        self._copy(state, self._durable, working, self._begun.versions)
        self.n_kept = len(state.records)
        return state.reopened(self._settings)

    def note_processor(self, processor: Processor | None) -> None:
        """Remember what computes the run; a warning where it goes on with what may round differently."""
        if processor is None:
            return
        here = asdict(processor)
        before = replace_processor(place_at(self.path), here)
        if before is not None and before != here and self._begun is not None:
            logger.warning(
                "%s: the run was computed with %s, and goes on with %s: its results may differ in their last bits from "
                "those of a run on one kind of processor",
                self.path,
                f"{before.get('model')} (vectors of {before.get('vector_bits')} bits)",
                processor,
            )

    def keep(self, state: RunState) -> None:
        """Keep a state when it is due: when the run is done, or has worked long enough for the cost of the last one."""
        self._latest = state
        if state.phase == DONE or time.monotonic() - self._last >= self._patience * self._cost:
            self.keep_latest()

    def check_stop(self, record: IterationRecord) -> None:
        """Called after a pass has been told of.

        Raises
        ------
        RunStopped
            When the run was asked to stop, and there is more to do.
        """
        if record.phase != FINAL and self._folder.stop_requested():
            raise RunStopped(f"{self.path}: stopped after pass {record.iteration}, as was asked for")

    def keep_latest(self) -> None:
        """Keep the last complete pass, if it is not kept yet."""
        state, begin = self._latest, time.monotonic()
        if state is None:
            return
        versions = self._copy(state, self._working, self._durable)
        self._folder.write_state(state.as_dict(), versions)
        self._latest, self.n_kept = None, len(state.records)
        self._durable.keep_only(state.needed())
        self._last = time.monotonic()
        self._cost = self._last - begin

    def begin_with(self, start: Start) -> None:
        """Begin with a start that is given whole; nothing happens where the run has begun."""
        if self._begun is None:
            known: Arrays | None = {} if self._settings.standardize else None  # the driver surveys the rows
            write_given_start(self._durable, self._settings, self._plan, start, known)
            state = RunState.first(self._settings, self._settings.n_components)
            self._folder.write_state(state.as_dict(), self._copy(state, self._durable, None))

    def _copy(
        self, state: RunState, source: Storage, target: Storage | None, expected: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Copy what a state needs, where there is a target.

        Parameters
        ----------
        expected : digests of the blocks by their names; None where nothing is known of them

        Returns
        -------
        Digests of the blocks.

        Raises
        ------
        ValueError
            Naming what is missing, or is not what the state was kept with.
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
    """The state that the run at a path keeps.

    Raises
    ------
    ValueError
        Naming the file and the field that holds something else.
    """
    try:
        return RunState.from_dict(values)
    except ValueError as error:
        raise ValueError(f"{path}/{STATE}: damaged: {error}; restore the file from a copy") from error


@contextmanager
def kept_run(
    options: Options, settings: Settings, rows: RowSource, start: Start | BegunStart | None
) -> Iterator[tuple[KeptRun | None, Plan]]:
    """The run in a folder, held while the caller works on it, and its plan; without a folder the plan alone.

    A run goes on with the plan that it was begun with, whatever plan this version of the package would make. What ends
    before it has a state leaves the folder to any other run.

    Raises
    ------
    ValueError, FileExistsError, FileNotFoundError, RuntimeError, OSError
        As `store.runs.RunFolder`.
    """
    plan = make_plan(rows, settings, options.n_groups)
    if options.run is None:
        yield None, plan
        return
    folder = RunFolder(options.run)
    try:
        folder.check_space(kept_bytes(rows, settings))
        known = folder.begun() or {}
        if "plan" in known:
            plan = same_plan(folder.path, stored_plan(folder.path, known), plan, options.n_groups)
        begin = describe_start(start)
        check_same_start(folder.path, known.get("start", begin).get("digest"), begin["digest"])
        identity = {
            "settings": settings_of_run(settings, known.get("settings", {})),
            "data": describe_rows(rows),
            "plan": asdict(plan),
            "start": begin,
        }
        begun = folder.begin(identity, options.resume, lambda seen: recognize(folder.path, rows, plan, seen))
        if begun is not None:
            logger.info("%s: going on after %d passes", folder.path, len(state_from(folder.path, begun.values).records))
        try:
            yield KeptRun(folder, begun, settings, plan, options.checkpoint_share), plan
        except BaseException as error:
            try:
                folder.give_up()
            except OSError as left:  # what ended the run matters more
                error.add_note(f"{folder.path}: what was begun there could not be removed: {left}")
            raise
    finally:
        folder.release()
