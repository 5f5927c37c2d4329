"""The history of a run as a Dataset."""

from __future__ import annotations

import math

import numpy as np

from vmfa_dask.run.records import IterationRecord
from vmfa_dask.service.history import history_dataset

RECORDS = [
    IterationRecord(0, "warm-up", -9.0, math.nan, 4.5, 45, 10.0, 1.0, {"search": 0.5}, 3),
    IterationRecord(1, "training", -7.0, 2.0, 4.0, 40, 5.0, 2.0, {"search": 0.25, "update": 1.0}, 2, (1,), 10.0),
    IterationRecord(2, "final", -6.0, 1.0, 3.0, 30, 5.0, 2.0, {}, 2),
]


def test_records_become_variables_over_the_passes() -> None:
    dataset = history_dataset(RECORDS, standardize=True)
    np.testing.assert_array_equal(dataset.free_energy, [-9.0, -7.0, -6.0])
    np.testing.assert_array_equal(dataset.n_dropped, [0, 1, 0])
    np.testing.assert_array_equal(dataset.sum_of_counts, [np.nan, 10.0, np.nan])
    np.testing.assert_array_equal(dataset.task_seconds.sel(work="search"), [0.5, 0.25, 0.0])
    assert dataset.task_seconds.sel(iteration=1, work="update") == 1.0
    assert dataset.free_energy.where(dataset.phase == "training", drop=True).iteration == 1
    assert dataset.n_alive.dtype.kind == "i"
    assert dataset.free_energy.attrs == {"long_name": "free energy per row", "units": "nats"}
    assert all("long_name" in dataset[name].attrs for name in dataset.variables)
    units = [history_dataset(RECORDS, standardize).change.attrs["units"] for standardize in (True, False)]
    assert units == ["nats", "1"]


def test_a_history_without_records_has_no_passes() -> None:
    assert dict(history_dataset([], True).sizes) == {"iteration": 0, "work": 0}
