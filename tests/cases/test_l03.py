"""L03: settings as people write them: scalars of NumPy, sizes and times as Dask writes them, addresses, paths."""

from __future__ import annotations

import json
import math
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np
import pytest
from distributed import Client, LocalCluster

from tests.cases.test_d07 import NoCluster
from tests.clusters import local_cluster
from tests.ports import free_port
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import DetachedRun, attach, fit_distributed, fit_local
from vmfa_dask.run.numbers import plain
from vmfa_dask.service.inputs import make_settings
from vmfa_dask.service.options import make_options

ROWS = draw(make_mixture(3, 6, 1), 400, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 3, "n_factors": 1, "n_groups": 2, "max_warmup_iter": 1, "max_iter": 2, "tol": 0.0,
}  # fmt: skip

# Scalars.

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.intp, np.longlong]
FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
WHOLE = ("n_components", "n_factors", "truncation", "neighborhood", "search_every", "random_candidates", "max_iter",
         "max_warmup_iter", "chain_length", "random_state")  # fmt: skip
REAL = ("tol", "warmup_tol", "reg_covar")


@pytest.mark.parametrize("kind", INTEGERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("zero_dimensional", [False, True])
def test_integers_of_numpy_are_those_of_python(kind: Any, zero_dimensional: bool) -> None:
    for name in WHOLE:
        value = np.array(3, kind) if zero_dimensional else kind(3)
        settings = make_settings(**{"n_components": 5, name: value})
        assert type(getattr(settings, name)) is int
        assert getattr(settings, name) == 3


@pytest.mark.parametrize("kind", FLOATS, ids=lambda kind: kind.__name__)
def test_floats_of_numpy_are_those_of_python(kind: Any) -> None:
    for name in REAL:
        settings = make_settings(n_components=5, **{name: kind(0.125)})
        assert type(getattr(settings, name)) is float
        assert getattr(settings, name) == 0.125


def test_booleans_texts_and_sequences_of_numpy() -> None:
    settings = make_settings(
        n_components=5,
        learn_weights=np.bool_(False),
        standardize=np.array(True),
        search=np.str_("guided"),
        neighborhood=np.array([4, 3, 2], np.uint8),
    )
    assert settings.learn_weights is False
    assert settings.standardize is True
    assert type(settings.search) is str
    assert settings.neighborhood == (4, 3, 2)
    mixed = make_settings(n_components=5, neighborhood=[np.int64(4), 3, np.int8(2)])
    assert mixed.neighborhood == (4, 3, 2)
    assert all(type(size) is int for size in (*settings.neighborhood, *mixed.neighborhood))


@pytest.mark.parametrize("value", [None, "a", b"a", 1, 1.5, True, (1, (2.5, "x")), {"a": 1}, Decimal("1"), Path("x")])
def test_what_is_pythons_own_stays_as_it_is(value: Any) -> None:
    assert plain(value) == value
    assert type(plain(value)) is type(value)


def test_runs_store_what_python_would_have_stored(tmp_path: Path) -> None:
    scalars = {
        "n_components": np.int64(3), "n_factors": np.uint8(1), "n_groups": np.int32(2), "max_warmup_iter": np.int8(1),
        "max_iter": np.int64(2), "tol": np.float32(0.0),
    }  # fmt: skip
    fit = fit_local(ROWS, **scalars, run=tmp_path / "numpy", checkpoint_share=np.float64(1.0), threads=np.int64(1))
    straight = fit_local(ROWS, **OPTIONS, run=tmp_path / "python")
    assert parameters(fit.model) == parameters(straight.model)
    assert repr(fit.settings) == repr(straight.settings)
    texts = [json.loads((tmp_path / name / "run.json").read_text()) for name in ("numpy", "python")]
    assert texts[0] == texts[1]
    fit_local(ROWS, **OPTIONS, run=tmp_path / "numpy", resume="require")


# Arguments that are no settings.

GOOD: list[tuple[str, Any, Any]] = [
    ("cache_bytes", "1GB", 10**9),
    ("cache_bytes", "1 GiB", 2**30),
    ("cache_bytes", "1.5 MB", 1_500_000),
    ("cache_bytes", "1000", 1000),
    ("cache_bytes", np.str_("2kB"), 2000),
    ("cache_bytes", 1e9, 10**9),
    ("cache_bytes", np.float32(1024), 1024),
    ("cache_bytes", np.uint64(7), 7),
    ("cache_bytes", 0, 0),
    ("cache_bytes", "0", 0),
    ("cache_bytes", None, None),
    ("threads", np.int64(2), 2),
    ("threads", None, None),
    ("n_groups", np.array(4), 4),
    ("n_groups", None, None),
    ("worker_timeout", 5, 5.0),
    ("worker_timeout", np.float32(0.5), 0.5),
    ("worker_timeout", "5s", 5.0),
    ("worker_timeout", "2 minutes", 120.0),
    ("worker_timeout", "30", 30.0),
    ("worker_timeout", 0, 0.0),
    ("checkpoint_share", np.float64(0.5), 0.5),
    ("checkpoint_share", 1, 1),
    ("detach", np.bool_(False), False),
    ("resume", np.str_("never"), "never"),
    ("run", None, None),
    ("run", "a/b", os.path.abspath("a/b")),
    ("run", Path("a"), os.path.abspath("a")),
    ("run", "s3://bucket/run/", "s3://bucket/run"),
    ("scratch", Path("here"), os.path.abspath("here")),
    ("scratch", "here", os.path.abspath("here")),
]


@pytest.mark.parametrize(("name", "value", "expected"), GOOD, ids=lambda value: repr(value))
def test_arguments_as_people_write_them(name: str, value: Any, expected: Any) -> None:
    found = getattr(make_options(**{name: value}), name)
    assert found == expected
    assert type(found) is type(expected)


BAD: list[tuple[str, Any]] = [
    *[("threads", value) for value in (-1, 0, 1.5, 2.0, "2", True, math.nan, [2])],
    *[("n_groups", value) for value in (0, -3, 3.0, "3.0", True, np.float64(3), (3,))],
    *[("cache_bytes", value) for value in (-1, "-1GB", "much", "1 XB", "", 0.5, math.nan, math.inf, "1e999", True)],
    *[("worker_timeout", value) for value in (-1, math.nan, math.inf, "soon", "", "-5s", None, True, [1])],
    *[("checkpoint_share", value) for value in (0, -0.5, 1.5, math.nan, "1", None, True)],
    *[("run", value) for value in ("", "  ", 3, b"run", True, ["run"])],
    *[("scratch", value) for value in ("", "  ", 3, b"run", "s3://bucket/x")],
    *[("resume", value) for value in ("maybe", "", None, True)],
    *[("detach", value) for value in ("yes", 1, None)],
    *[("progress", value) for value in (True, "print")],
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD, ids=lambda value: repr(value))
def test_others_are_refused_by_name_before_any_work(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name}=.*: expected "):
        fit_distributed("nowhere.zarr", **{**OPTIONS, name: value}, client=NoCluster())
    if name not in ("worker_timeout", "scratch", "detach"):
        with pytest.raises(ValueError, match=rf"^{name}=.*: expected "):
            fit_local("nowhere.zarr", **{**OPTIONS, name: value})


def test_schemes_that_hold_no_runs_are_refused_before_any_work() -> None:
    with pytest.raises(ValueError, match="ftp://host/run: expected a folder or the URL of an object store"):
        fit_local("nowhere.zarr", **OPTIONS, run="ftp://host/run")


def test_they_work_in_fits(tmp_path: Path, in_process: Client) -> None:
    store = write_store(tmp_path / "x.zarr", ROWS, 100)
    expected = parameters(fit_local(store, **OPTIONS).model)
    places = {"run": tmp_path / "run", "scratch": tmp_path}
    fit = fit_distributed(store, **OPTIONS, client=in_process, cache_bytes="1 MB", worker_timeout="1 minute", **places)
    assert parameters(fit.model) == expected
    assert parameters(fit_local(store, **OPTIONS, cache_bytes="1 MB", threads=np.int8(1)).model) == expected
    assert parameters(fit_local(store, **OPTIONS, cache_bytes=None).model) == expected


# Clients.


def test_an_address_opens_a_client_and_closes_it(process_cluster: LocalCluster, processes: Client) -> None:
    expected = parameters(fit_local(ROWS, **OPTIONS).model)
    for client in (process_cluster.scheduler_address, process_cluster):
        assert parameters(fit_distributed(ROWS, **OPTIONS, client=client).model) == expected
    with pytest.raises(ValueError, match="n_components"):
        fit_distributed(ROWS, **{**OPTIONS, "n_components": 401}, client=process_cluster.scheduler_address)
    clients = processes.run_on_scheduler(lambda dask_scheduler: [c for c in dask_scheduler.clients if "Client-" in c])
    assert [name for name in clients if "worker" not in name] == [processes.id]
    assert processes.status == "running"


def test_a_cluster_in_this_process() -> None:
    with local_cluster(1, processes=False) as cluster:
        fit = fit_distributed(ROWS, **OPTIONS, client=cluster)
        assert cluster.status.name == "running"
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS).model)
    with pytest.raises(ValueError, match="this cluster is closed"):
        fit_distributed(ROWS, **OPTIONS, client=cluster)


def test_a_detached_run_by_address(process_cluster: LocalCluster, processes: Client, tmp_path: Path) -> None:
    store, address = write_store(tmp_path / "x.zarr", ROWS, 100), process_cluster.scheduler_address
    expected = parameters(fit_local(store, **OPTIONS).model)
    run = tmp_path / "run"
    begun = fit_distributed(store, **OPTIONS, client=address, run=run, scratch=tmp_path, detach=True)
    found = attach(run, address)
    for detached in (begun, found):
        assert isinstance(detached, DetachedRun)
        assert parameters(detached.result(60).model) == expected
        detached.future.client.close()
    with pytest.raises(KeyError, match="no driver of"):
        attach(tmp_path / "other", process_cluster)
    processes.unpublish_dataset(f"vmfa-dask:{run}")


def test_the_scheduler_that_dask_is_configured_for(
    process_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed.client, "_global_clients", {})
    with dask.config.set({"scheduler-address": process_cluster.scheduler_address}):
        fit = fit_distributed(ROWS, **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS).model)


def test_without_a_client_the_ways_out_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed.client, "_global_clients", {})  # other tests' workers may have one in this process
    for call in (lambda: fit_distributed(ROWS, **OPTIONS), lambda: attach(tmp_path)):
        with pytest.raises(ValueError, match=r"client: there is none; .*distributed\.Client\(\).* or call fit_local"):
            call()


@pytest.mark.parametrize(
    "client", [5, object(), [], b"tcp://127.0.0.1:1", Client], ids=["int", "object", "list", "bytes", "class"]
)
def test_what_is_no_client_is_named(client: Any) -> None:
    with pytest.raises(TypeError, match=r"^client=.*: expected a Client of distributed, the address of a scheduler"):
        fit_distributed(ROWS, **OPTIONS, client=client)


@pytest.mark.parametrize("address", ["", "foo://x", "tcp://"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises((ValueError, OSError), match=rf"^client='{address}': "):
        fit_distributed(ROWS, **OPTIONS, client=address)


def test_an_address_where_nobody_answers() -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "500ms"}),
        pytest.raises(OSError, match=rf"^client='{address}': no scheduler answers there"),
    ):
        fit_distributed(ROWS, **OPTIONS, client=address)
