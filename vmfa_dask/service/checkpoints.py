"""Keeping a run: what a state needs is written to the run's folder, then the marker moves.

May import: em, store.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from vmfa_dask.em.plan import Plan
from vmfa_dask.em.rows import RowSource
from vmfa_dask.em.settings import Settings
from vmfa_dask.em.state import DONE, RunState
from vmfa_dask.em.storage import POSTERIOR, Storage
from vmfa_dask.service.inputs import describe_rows
from vmfa_dask.store.runs import RunFolder
from vmfa_dask.store.storage import ZarrStorage

logger = logging.getLogger(__name__)

# Versions that live in memory are written when this many times the cost of the last write has passed since: a
# checkpoint then costs at most 1 / 40 of the run. Versions that workers share through the folder are there already.
_PATIENCE = 40.0
_FIRST_COST_SECONDS = 0.25
# Settings that a call may change when it goes on with a run.
_EXTENSIBLE = ("tol", "max_iter")


class KeptRun:
    """A run with a folder: finds where it stands, and keeps each state that is due.

    Parameters
    ----------
    folder : the run's folder, locked by this process
    values : the state that was found there, if any
    settings, plan : the run
    """

    def __init__(self, folder: RunFolder, values: dict[str, Any] | None, settings: Settings, plan: Plan) -> None:
        self._folder, self._values, self._settings, self._plan = folder, values, settings, plan
        self.path = folder.path
        self.versions = os.path.join(folder.path, "versions")
        self._durable = ZarrStorage(self.versions)
        self._working: Storage = self._durable
        self._last, self._cost = time.monotonic(), _FIRST_COST_SECONDS

    def attach(self, working: Storage) -> RunState | None:
        """Work with this storage from now on; the state to go on from, None where no pass was completed."""
        # Workers that share the folder write their versions there themselves.
        self._working = self._durable if isinstance(working, ZarrStorage) else working
        if self._values is None:
            return None
        state = RunState.from_dict(self._values)
        if self._working is not self._durable:
            self._copy(state, self._durable, self._working)
        return state.reopened(self._settings)

    def keep(self, state: RunState) -> None:
        """Keep a state: at once where its versions are in the folder already or the run is done, else when due."""
        copies = self._working is not self._durable
        begin = time.monotonic()
        if copies and state.phase != DONE and begin - self._last < _PATIENCE * self._cost:
            return
        if copies:
            self._copy(state, self._working, self._durable)
        self._folder.write_state(state.as_dict())
        if copies:
            self._durable.keep_only(state.needed())
        self._last = time.monotonic()
        self._cost = self._last - begin

    def _copy(self, state: RunState, source: Storage, target: Storage) -> None:
        """Copy what a state needs. The first posteriors are drawn from hashes and may not be stored at all."""
        for kind, version in state.needed():
            n_blocks = len(self._plan.groups) if kind == POSTERIOR else max(2, len(self._plan.component_blocks))
            for block in range(n_blocks):
                try:
                    arrays = source.read(kind, version, block)
                except KeyError:
                    continue
                target.write(kind, version, block, {name: array.view() for name, array in arrays.items()})


@contextmanager
def kept_run(
    path: str | None, resume: str, settings: Settings, plan: Plan, rows: RowSource
) -> Iterator[KeptRun | None]:
    """The run in a folder, held while the caller works on it; None without a folder.

    Raises
    ------
    ValueError, FileExistsError, FileNotFoundError, RuntimeError, OSError
        As `store.runs.RunFolder`.
    """
    if path is None:
        if resume == "require":
            raise ValueError("resume='require': there is nothing to resume without run=...")
        yield None
        return
    folder = RunFolder(path)
    try:
        values = folder.begin(_identity(settings, plan, rows), resume)
        if values is not None:
            logger.info("%s: going on after %d passes", folder.path, len(values["records"]))
        yield KeptRun(folder, values, settings, plan)
    finally:
        folder.release()


def _identity(settings: Settings, plan: Plan, rows: RowSource) -> dict[str, Any]:
    """What makes a run the same run: settings, cuts and data."""
    fixed = {name: value for name, value in asdict(settings).items() if name not in _EXTENSIBLE}
    return {"settings": fixed, "plan": asdict(plan), "data": describe_rows(rows)}
