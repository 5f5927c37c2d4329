"""Who runs the tasks of a run: the protocol, and an executor that runs them at once in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from vmfa_dask.run.context import RunContext
from vmfa_dask.run.observer import Observer
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.stages import Stage, StageStorage
from vmfa_dask.run.storage import Storage


class SchedulerLost(ConnectionError):
    """The process that schedules the tasks of a run went away, and with it all results that it held."""


class Executor(Protocol):
    """Runs ``function(context, *arguments)``; arguments may be handles of other tasks, alone or in place of a value."""

    @property
    def plan(self) -> Plan:
        """Cuts of the run."""
        ...

    @property
    def settings(self) -> Settings:
        """Settings of the run."""
        ...

    @property
    def storage(self) -> Storage:
        """The versions of the run, as the driver sees them."""
        ...

    @property
    def shares_memory(self) -> bool:
        """Whether all tasks run in one process, so that handing a large result to several of them costs nothing."""
        ...

    def submit(self, name: str, index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Start a task.

        Parameters
        ----------
        name : str
            What the task does, as a dashboard shows it.
        index : int
            Number of the group or component block that it serves.
        function : callable
            The task.
        *arguments : object
            Its arguments after the context.

        Returns
        -------
        handle
            Stands for the result in arguments of other tasks.
        """
        ...

    def results(self, handles: Sequence[Any]) -> list[Any]:
        """Wait for tasks.

        Parameters
        ----------
        handles : sequence of handles
            The tasks.

        Returns
        -------
        list
            Their results; an error of a task is raised.
        """
        ...


class SerialExecutor:
    """Runs each task when it is submitted, in this process, on the cores of the context.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    observer : Observer, optional
        Told of each task that is done.
    """

    shares_memory = True

    def __init__(self, context: RunContext, observer: Observer | None = None) -> None:
        self._context, self._observer = context, observer or Observer()
        self.plan, self.settings = context.plan, context.settings
        self.storage: Storage = context.storage

    def submit(self, name: str, index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a task; its result is its handle; see `Executor.submit`."""
        result = function(self._context, *arguments)
        self._observer.task_done(name)
        return result

    def results(self, handles: Sequence[Any]) -> list[Any]:
        """The handles; see `Executor.results`."""
        return list(handles)


def run_in_stage(context: RunContext, stage: Stage, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task of a stage, wherever the tasks of its run are executed.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    stage : Stage
        The stage.
    function : callable
        The task.
    *arguments : object
        Its arguments after the context.

    Returns
    -------
    object
        Its result.
    """
    return function(context.stage(stage), *arguments)


class StageExecutor:
    """Runs the tasks of a stage among those of its run.

    Parameters
    ----------
    executor : Executor
        Runs the tasks of the run.
    stage : Stage
        The stage.
    """

    def __init__(self, executor: Executor, stage: Stage) -> None:
        self._executor, self.stage = executor, stage
        self.plan, self.settings = executor.plan, stage.settings
        self.storage: Storage = StageStorage(executor.storage, stage)
        self.shares_memory = executor.shares_memory

    def submit(self, name: str, index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """A handle of the run's executor; the stage is part of the task's name; see `Executor.submit`."""
        return self._executor.submit(f"{self.stage.name}-{name}", index, run_in_stage, self.stage, function, *arguments)

    def results(self, handles: Sequence[Any]) -> list[Any]:
        """Results of the run's executor; see `Executor.results`."""
        return self._executor.results(handles)
