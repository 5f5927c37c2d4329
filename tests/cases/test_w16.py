"""W16: users watch a fit on a cluster: a line for each pass if they ask, a dashboard link that works, plain names."""

from __future__ import annotations

import re

import dask
import pytest
from distributed import Client

from tests.samples import draw, make_mixture
from vmfa_dask import fit_distributed

ROWS = draw(make_mixture(4, 8, 3), 300, dtype="float32")


def test_a_fit_on_a_cluster_can_be_watched(in_process: Client, capsys: pytest.CaptureFixture[str]) -> None:
    names: set[str] = set()
    options = {"n_components": 4, "n_factors": 3, "max_iter": 3, "n_groups": 4, "client": in_process}
    with dask.config.set({"distributed.dashboard.link": "https://hub.example/user/me/proxy/{port}/status"}):
        fit = fit_distributed(ROWS, verbose=1, **options)
        shown = capsys.readouterr()
        fit_distributed(ROWS, verbose=0, progress=lambda record: names.update(task_names(in_process)), **options)
    assert capsys.readouterr() == shown._replace(out="", err="")
    link, *passes = shown.err.splitlines()
    assert re.fullmatch(r"dashboard: https://hub\.example/user/me/proxy/\d+/status", link)
    assert passes == [record.line() for record in fit.history]
    assert all("free energy" in line and "rows/s" in line and line.count(" s  ") == 1 for line in passes)
    assert {"seed-survey", "e-step", "m-step"} <= names
    assert not any("lambda" in name for name in names)


def task_names(client: Client) -> set[str]:
    return set(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes)))
