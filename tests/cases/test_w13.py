"""W13: a path means the same on every worker, or the fit does not begin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from tests.chaos.processes import ROOT, cluster
from tests.mounts import MOUNT, NAMESPACE, mounts_are_possible
from tests.ports import free_port
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import fit_distributed, fit_local

ROWS = draw(make_mixture(4, 6, 3), 600, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 4, "n_factors": 3, "max_iter": 2, "n_groups": 3}


@pytest.fixture
def address() -> str:
    return f"tcp://127.0.0.1:{free_port()}"


@pytest.mark.slow
def test_a_relative_path_leads_workers_of_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    write_store(tmp_path / "rows.zarr", ROWS, 200)
    monkeypatch.chdir(tmp_path)
    with cluster(int(address.rsplit(":")[-1]), 2), Client(address, timeout=60, set_as_default=False) as client:
        fit = fit_distributed("rows.zarr", client=client, **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local("rows.zarr", **OPTIONS).model)


@pytest.mark.parametrize("there", ["nothing", "other rows"])
@pytest.mark.slow
def test_a_worker_that_does_not_see_the_store_is_named(tmp_path: Path, address: str, there: str) -> None:
    if not mounts_are_possible():
        pytest.skip("needs a system that lets users mount: unshare --map-root-user --mount")
    data = tmp_path / "data"
    path = write_store(data / "rows.zarr", ROWS, 200)
    other = write_store(tmp_path / "other.zarr", ROWS[:300], 200)
    copied = f'cp -r {other} {path} && exec "$@"' if there == "other rows" else 'exec "$@"'
    worker = [sys.executable, "-m", "dask", "worker", address, "--host", "127.0.0.1", "--no-nanny", "--no-dashboard"]
    command = [*NAMESPACE, "sh", "-c", MOUNT, "size=8m", str(data), "sh", "-c", copied, "worker", *worker]
    with cluster(int(address.rsplit(":")[-1]), 1), Client(address, timeout=60, set_as_default=False) as client:
        blind = subprocess.Popen(
            [*command, "--death-timeout", "60"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            client.wait_for_workers(2, timeout=60)
            expected = r"found \(300, 6\) float32" if there == "other rows" else "FileNotFoundError"
            with pytest.raises(
                FileNotFoundError, match=rf"finds rows of \(600, 6\) float32 .*tcp://.* do not .*{expected}"
            ):
                fit_distributed(path, client=client, **OPTIONS)
            assert client.submit(lambda: 1).result(30) == 1  # the cluster goes on
        finally:
            blind.kill()
            blind.wait(30)
