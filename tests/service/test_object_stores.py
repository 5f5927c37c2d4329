"""Data and runs in an object store: S3 as moto serves it, with and without failures on the way."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from distributed import Client

from tests.clusters import local_cluster
from tests.objects import environment_of, failing_proxy
from tests.samples import draw, fixed_passes, make_mixture, parameters, write_store
from vmfa_dask import IterationRecord, fit_distributed, fit_local
from vmfa_dask.service import exchange_folder
from vmfa_dask.store import objects
from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.places import place_at
from vmfa_dask.store.run_inspection import read_state
from vmfa_dask.store.runs import RunFolder
from vmfa_dask.store.strict import sealed

ROWS = draw(make_mixture(5, 8, 3), 400, dtype="float32")
OPTIONS = fixed_passes(6, 3, n_groups=3, max_warmup_iter=2, max_iter=4)


class Interrupted(Exception):
    """Stands for anything that ends the driver between two passes."""


def interrupt(record: IterationRecord) -> None:
    """Ends a run in training."""
    if record.iteration == 3:
        raise Interrupted


@pytest.fixture(scope="module")
def straight() -> bytes:
    return parameters(fit_local(ROWS, **OPTIONS).model)


@pytest.mark.slow
def test_a_run_in_an_object_store_goes_on_to_the_same_bytes(bucket: str, straight: bytes) -> None:
    run = f"{bucket}/runs/one/"
    with pytest.raises(Interrupted):
        fit_local(ROWS, **OPTIONS, run=run, progress=interrupt)
    passes: list[int] = []
    fit = fit_local(ROWS, **OPTIONS, run=run, resume="require", progress=lambda r: passes.append(r.iteration))
    assert passes == [4, 5, 6]
    assert parameters(fit.model) == straight
    # What the last state needs is there, and nothing else.
    assert place_at(f"{run}versions").children("parameters") == ["000004"]
    with pytest.raises(ValueError, match="settings random_state is 0, this call has 3"):
        fit_local(ROWS, **OPTIONS, run=run, random_state=3)


@pytest.mark.long
@pytest.mark.parametrize("shared", [True, False], ids=["folder in common", "no folder in common"])
def test_workers_read_and_write_an_object_store(
    bucket: str, straight: bytes, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, run = f"{bucket}/rows.zarr", f"{bucket}/run"
    stored = zarr.create_array(zarr_target(url), shape=ROWS.shape, dtype=ROWS.dtype, chunks=(100, 8))
    stored[...] = ROWS
    if not shared:
        monkeypatch.setattr(exchange_folder, "_workers_that_miss", lambda client, folder: ["tcp://elsewhere:1"])
    with local_cluster(2) as cluster, Client(cluster, set_as_default=False) as client:  # workers take the environment
        with pytest.raises(Interrupted):
            fit_distributed(url, client=client, **OPTIONS, run=run, progress=interrupt)
        fit = fit_distributed(url, client=client, **OPTIONS, run=run, resume="require")
    assert parameters(fit.model) == parameters(fit_local(url, **OPTIONS).model)
    assert place_at(run).children("") == ["versions"]


def test_workers_without_a_folder_in_common_are_named(processes: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_folder, "_workers_that_miss", lambda client, folder: ["tcp://elsewhere:1"])
    with pytest.raises(FileNotFoundError, match=r"do not see the folder .* tcp://elsewhere:1; pass scratch=folder"):
        fit_distributed(ROWS, client=processes, **OPTIONS)


@pytest.mark.long
@pytest.mark.parametrize("failure", [503, 0], ids=["slow down", "hang up"])
def test_requests_that_fail_are_made_again(server: int, bucket: str, straight: bytes, failure: int) -> None:
    count = itertools.count(1)
    with (
        failing_proxy(server, lambda method, path: failure if next(count) % 5 == 0 else None) as port,
        environment_of(port),
    ):
        fit = fit_local(ROWS, **OPTIONS, run=f"{bucket}/run")
    assert next(count) > 50
    assert parameters(fit.model) == straight


def test_a_write_whose_answer_was_lost_is_no_other_driver(server: int, bucket: str) -> None:
    lost: list[str] = []
    written = json.dumps(sealed({"a": 1, "versions": {}, "run": None}), indent=1)

    def failure(method: str, path: str) -> int | None:
        """Let the write happen, and answer that it did not."""
        if method == "PUT" and path.endswith("state.json") and not lost:
            lost.append(path)
            place_at(f"{bucket}/run").replace("state.json", written)
            return 500
        return None

    with environment_of(server):
        direct = RunFolder(f"{bucket}/run")
        assert direct.identity() is None
    with failing_proxy(server, failure) as port:
        with environment_of(port):
            proxied = RunFolder(f"{bucket}/run")
        proxied.write_state({"a": 1})
    assert lost
    assert read_state(f"{bucket}/run") == {"a": 1}


@pytest.mark.long
def test_a_store_that_stays_away_ends_the_run_with_its_last_state_intact(
    server: int, bucket: str, straight: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, gone = f"{bucket}/run", False
    monkeypatch.setattr(objects, "_MOST_RETRIES", 2)

    def progress(record: IterationRecord) -> None:
        nonlocal gone
        gone = record.iteration == 2

    with failing_proxy(server, lambda method, path: 503 if gone else None) as port, environment_of(port):
        with pytest.raises(OSError, match=rf"{run}.* cannot be (read|written).*503"):
            fit_local(ROWS, **OPTIONS, run=run, checkpoint_share=1, progress=progress)
    state = read_state(run)
    assert state is not None
    assert len(state["records"]) == 3
    assert parameters(fit_local(ROWS, **OPTIONS, run=run, resume="require").model) == straight


@pytest.mark.parametrize("status", [403, 404])
def test_a_place_that_cannot_be_written_is_found_before_the_first_pass(server: int, bucket: str, status: int) -> None:
    passes: list[int] = []
    with failing_proxy(server, lambda method, path: status if method == "PUT" else None) as port, environment_of(port):
        with pytest.raises(OSError, match=f"{bucket}/run cannot be written"):
            fit_local(ROWS, **OPTIONS, run=f"{bucket}/run", progress=lambda r: passes.append(r.iteration))
    assert passes == []


@pytest.mark.long
def test_two_drivers_of_a_run_the_second_to_keep_a_state_is_told(bucket: str) -> None:
    run = f"{bucket}/run"
    fit_local(ROWS, **{**OPTIONS, "max_iter": 2}, run=run)

    def other_driver(record: IterationRecord) -> None:
        if record.iteration == 4:
            fit_local(ROWS, **OPTIONS, run=run)

    with pytest.raises(RuntimeError, match=f"{run}: another process is working on this run"):
        fit_local(ROWS, **OPTIONS, run=run, checkpoint_share=1, progress=other_driver)
    state = read_state(run)
    assert state is not None
    assert state["phase"] == "done"


def test_urls_of_other_services_are_refused() -> None:
    with pytest.raises(ValueError, match=r"ftp://host/run: expected a folder or the URL of an object store \(s3, "):
        fit_local(ROWS, **OPTIONS, run="ftp://host/run")


@pytest.mark.slow
def test_xarray_opens_what_a_run_keeps(tmp_path: Path, bucket: str) -> None:
    for run in (str(tmp_path / "run"), f"{bucket}/run"):
        fit = fit_local(ROWS, **OPTIONS, run=run)
        tree = xr.open_datatree(zarr_target(f"{run}/versions"), engine="zarr", consolidated=False)
        kept = tree["parameters/000004/00000"].to_dataset()
        assert dict(kept.sizes) == {"component": 6, "feature": 8, "factor": 3}
        np.testing.assert_array_equal(kept["means"][kept["weights"] > 0], fit.model.means)
        posteriors = [tree[f"posterior/000006/{block:05d}/components"] for block in range(3)]
        assert sum(part.sizes["row"] for part in posteriors) == len(ROWS)
        assert json.loads(place_at(run).read("run.json") or "")["settings"]["n_components"] == 6


def test_rows_in_an_object_store_that_lacks_them(bucket: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=rf"{bucket}/none.zarr: no Zarr array or group is stored there"):
        fit_local(f"{bucket}/none.zarr", **OPTIONS)
    local = fit_local(write_store(tmp_path / "rows.zarr", ROWS, 100), **OPTIONS)
    stored = zarr.create_array(zarr_target(f"{bucket}/rows.zarr"), shape=ROWS.shape, dtype=ROWS.dtype, chunks=(100, 8))
    stored[...] = ROWS
    assert parameters(fit_local(f"{bucket}/rows.zarr", **OPTIONS).model) == parameters(local.model)


def test_arrays_of_groups_pass_the_same_gate(bucket: str) -> None:
    group = zarr.open_group(zarr_target(f"{bucket}/g.zarr"), mode="w", zarr_format=2)
    group.create_array("images/train", data=ROWS.astype(">f4"), chunks=(400, 8))
    group.create_array("packed", data=ROWS.astype("i2"), chunks=(400, 8), attributes={"scale_factor": 0.1})
    expected = fit_local(ROWS, **OPTIONS).model
    for place in ({"data": f"{bucket}/g.zarr", "array": "images/train"}, {"data": f"{bucket}/g.zarr/images/train/"}):
        assert parameters(fit_local(**place, **OPTIONS).model) == parameters(expected)
    np.testing.assert_array_equal(
        expected.score_samples(f"{bucket}/g.zarr", array="images/train"), expected.score_samples(ROWS)
    )
    with pytest.raises(ValueError, match=r"arrays 'images/train', 'packed'; .*their shapes are \(400, 8\), \(400, 8\)"):
        fit_local(f"{bucket}/g.zarr", **OPTIONS)
    with pytest.raises(ValueError, match=rf"scale_factor=0.1 .*xarray\.open_zarr\('{bucket}/g\.zarr'\)\['packed'\]"):
        expected.score(f"{bucket}/g.zarr", array="packed")
