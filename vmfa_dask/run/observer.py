"""Who is told how a run goes while it goes: the interface, which does nothing itself."""

from __future__ import annotations

from vmfa_dask.run.settings import Settings
from vmfa_dask.run.state import RunState


class Observer:
    """Told by the driver of a run what it does; this one ignores it, and displays override what they show.

    All methods are called in the thread of the driver. They must not raise, and must not take long.

    Attributes
    ----------
    watches_tasks : bool
        Whether `task_done` is of any use: where it is not, no executor keeps handles for it.
    """

    watches_tasks = False

    def kernels_begin(self) -> None:
        """Kernels are loaded from the cache or compiled, until the first task is done."""

    def start_begins(self, n_groups: int) -> None:
        """The run looks for the parameters to begin with.

        Parameters
        ----------
        n_groups : int
            Groups of rows, each of which is a task in a pass.
        """

    def pass_begins(self, state: RunState, settings: Settings, n_groups: int) -> None:
        """The next pass begins.

        Parameters
        ----------
        state : RunState
            Where the run stands; its `phase` and `passes` say which pass it is.
        settings : Settings
            Of the run.
        n_groups : int
            Groups of rows, each of which is a task in a pass.
        """

    def task_done(self, name: str) -> None:
        """A task that reads a group of rows is done.

        Parameters
        ----------
        name : str
            What it did, as a dashboard shows it; in a stage, its name comes first.
        """

    def pass_ends(self, state: RunState) -> None:
        """A pass is complete; afterwards, other output may follow.

        Parameters
        ----------
        state : RunState
            Where the run stands now; the record of the pass is its last one.
        """

    def note(self, text: str) -> None:
        """Something to tell the user that stays.

        Parameters
        ----------
        text : str
            One line.
        """

    def close(self) -> None:
        """The run has ended, in whatever way."""
