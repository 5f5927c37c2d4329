"""Who runs the tasks of a run: the protocol, and an executor that runs them at once in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from vmfa_dask.run.context import RunContext
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.stages import Stage, StageStorage
from vmfa_dask.run.storage import Storage


class SchedulerLost(ConnectionError):
    """What runs the tasks of a run elsewhere went away; nothing of the run is there any more."""


class Executor(Protocol):
    """Runs ``function(context, *arguments)``; arguments may be handles of other tasks, alone or in place of a value."""

    @property
    def plan(self) -> Plan: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def storage(self) -> Storage:
        """The versions of the run, as the driver sees them."""
        ...

    @property
    def shares_memory(self) -> bool:
        """Whether all tasks run in one process, so that handing a large result to several of them costs nothing."""
        ...

    def submit(self, name: str, index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Start a task and return its handle.

        `name` says what it does (it is what a dashboard shows), `index` which group or block it serves.
        """
        ...

    def results(self, handles: Sequence[Any]) -> list[Any]:
        """Wait for tasks and return what they returned; raises what they raised."""
        ...


class SerialExecutor:
    """Runs each task when it is submitted, in this process, on the cores of the context."""

    shares_memory = True

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.plan, self.settings = context.plan, context.settings
        self.storage: Storage = context.storage

    def submit(self, name: str, index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """The task's result itself is its handle."""
        return function(self._context, *arguments)

    def results(self, handles: Sequence[Any]) -> list[Any]:
        """The handles."""
        return list(handles)


def run_in_stage(context: RunContext, stage: Stage, function: Callable[..., Any], *arguments: Any) -> Any:
    """A task of a stage, wherever the tasks of its run are done."""
    return function(context.stage(stage), *arguments)


class StageExecutor:
    """Runs the tasks of a stage among those of its run."""

    def __init__(self, executor: Executor, stage: Stage) -> None:
        self._executor, self.stage = executor, stage
        self.plan, self.settings = executor.plan, stage.settings
        self.storage: Storage = StageStorage(executor.storage, stage)
        self.shares_memory = executor.shares_memory

    def submit(self, name: str, index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """A handle of the run's executor; the stage is part of the task's name."""
        return self._executor.submit(f"{self.stage.name}-{name}", index, run_in_stage, self.stage, function, *arguments)

    def results(self, handles: Sequence[Any]) -> list[Any]:
        """What the run's executor gives."""
        return self._executor.results(handles)
