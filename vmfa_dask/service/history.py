"""The history of a run as a labelled Dataset of xarray. May import: run, numpy, xarray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vmfa_dask.run.records import IterationRecord

if TYPE_CHECKING:
    import xarray

# Long name and unit of each number of a record.
_NUMBERS = {
    "free_energy": ("free energy per row", "nats"),
    "change": ("gain of the free energy since the pass before", None),
    "joints_per_row": ("log-joints evaluated per row", "1"),
    "n_joints": ("log-joints evaluated", "1"),
    "rows_per_second": ("rows per second", "s-1"),
    "seconds": ("wall-clock time of the pass", "s"),
    "n_alive": ("components with positive weight", "1"),
    "sum_of_counts": ("sum of the counts of all components", "1"),
    "validation": ("free energy per held-out row", "nats"),
    "bytes_read": ("bytes read from the store of the rows", "byte"),
}
_COUNTED = {
    "dropped": "components that lost their last row",
    "split": "components that lost their last row and took half of another one",
}


def history_dataset(records: Sequence[IterationRecord], standardize: bool) -> xarray.Dataset:
    """Records of a run as variables over its passes.

    Parameters
    ----------
    records : sequence of IterationRecord
        In the order of the passes.
    standardize : bool
        Whether the gains of the free energy are in nats per feature, as those of such runs are.

    Returns
    -------
    xarray.Dataset
        See `Fit.history_dataset`.
    """
    import xarray

    def named(values: Any, long_name: str, units: str | None, dims: tuple[str, ...] = ("iteration",)) -> Any:
        return dims, values, {"long_name": long_name, **({} if units is None else {"units": units})}

    variables = {
        name: named([np.nan if (value := getattr(r, name)) is None else value for r in records], *described)
        for name, described in _NUMBERS.items()
    }
    variables["change"][2]["units"] = "nats" if standardize else "1"
    variables["change"][2]["comment"] = "per feature" if standardize else "relative to the free energy"
    for name, long_name in _COUNTED.items():
        variables[f"n_{name}"] = named([len(getattr(r, name)) for r in records], long_name, "1")
    works = sorted({work for record in records for work in record.seconds_per_phase})
    seconds = np.array([[record.seconds_per_phase.get(work, 0.0) for work in works] for record in records])
    variables["task_seconds"] = named(
        seconds.reshape(len(records), len(works)), "time by kind of work, summed over tasks", "s", ("iteration", "work")
    )
    coords = {
        "iteration": named([record.iteration for record in records], "number of the pass", "1"),
        "phase": named([record.phase for record in records], "phase of the run", None),
        "work": named(works, "kind of work in a task", None, ("work",)),
    }
    return xarray.Dataset(variables, coords, {"title": "history of a run"})
