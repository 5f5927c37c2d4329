"""The page of runs: what the scheduler collects, what Bokeh draws of it, and what a run pays when anything fails."""

from __future__ import annotations

import io
import logging
import math
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bokeh.client import pull_session
from bokeh.document import Document
from bokeh.models import CheckboxButtonGroup, ColumnDataSource, Div
from distributed import Client
from PIL import Image

from tests.clusters import local_cluster
from vmfa_dask import fit_distributed
from vmfa_dask.cluster.page import columns, installation, points
from vmfa_dask.cluster.page.collector import MOST_RUNS, Collector
from vmfa_dask.cluster.page.columns import Columns
from vmfa_dask.cluster.page.document import Page
from vmfa_dask.cluster.page.header import facts_html
from vmfa_dask.cluster.page.installation import install_page
from vmfa_dask.cluster.page.metrics import PrometheusSource, as_text, metrics_of
from vmfa_dask.cluster.page.pictures import as_png, make_pictures, picture_axes
from vmfa_dask.cluster.page.plugin import NAME, PagePlugin
from vmfa_dask.cluster.page.points import MOST_POINTS, points_of, stretch_of
from vmfa_dask.cluster.page.topics import PAGE_TOPIC, TOPIC
from vmfa_dask.cluster.page.view import RunView

RNG = np.random.default_rng(0)
CENTERS = RNG.normal(size=(4, 6, 5)) * 3
ROWS = (CENTERS[np.arange(400) % 4] + RNG.normal(size=(400, 6, 5))).astype(np.float32)
OPTIONS: dict[str, Any] = {"n_components": 4, "n_factors": 2, "max_iter": 6, "random_state": 1}
BEGIN = {
    "kind": "begin",
    "label": "digits",
    "client": "Client-1",
    "n_rows": 400,
    "n_components": 4,
    "n_factors": 2,
    "tol": 1e-3,
    "warmup_tol": 1e-2,
    "standardize": True,
    "feature_shape": [6, 5],
}


def record(iteration: int, **values: Any) -> dict[str, Any]:
    return {
        "run": "r",
        "iteration": iteration,
        "phase": "training" if iteration else "warm-up",
        "free_energy": -10.0 / (iteration + 1),
        "change": 0.5 / iteration if iteration else math.nan,
        "joints_per_row": 3.0,
        "rows_per_second": 100.0,
        "seconds": 4.0,
        "seconds_per_phase": {"read": 1.0, "update": 2.0},
        "n_alive": 4,
        "dropped": (),
        "split": (),
        "bytes_read": 8_000_000,
        **values,
    }


def collected(n_passes: int, **values: Any) -> Collector:
    collector = Collector()
    collector.take(PAGE_TOPIC, {"run": "r", **BEGIN}, 0.0)
    for iteration in range(n_passes):
        collector.take(TOPIC, record(iteration, **values), 4.0 * (iteration + 1))
    return collector


def passes_of(view: RunView) -> dict[str, list[float]]:
    return {name: list(column) for name, column in view.passes.data.items()}


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def at(client: Client, path: str) -> str:
    """Address of a page of the scheduler in this process; its own link names another interface."""
    assert client.cluster is not None
    return f"http://127.0.0.1:{client.cluster.scheduler.http_server.port}/{path}"


def collector_of(client: Client) -> Collector:
    assert client.cluster is not None
    return client.cluster.scheduler.plugins[NAME].collector  # type: ignore[no-any-return]


def test_columns_stay_bounded_and_keep_the_first_and_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MOST_ROWS", 40)
    monkeypatch.setattr(columns, "_LATEST", 10)
    table = Columns()
    for k in range(500):
        table.append({"pass": float(k)} if k < 300 else {"pass": float(k), "late": 1.0})
        assert len(table) == len(table.column("pass")) == len(table.column("late")) <= 40
    assert table.column("pass")[0] == 0
    assert list(table.column("pass")[-10:]) == list(range(490, 500))
    assert math.isnan(table.column("late")[0])
    assert table.last("late") == 1.0


def test_a_record_becomes_numbers_by_pass() -> None:
    collector = collected(2, validation=-7.0, dropped=(1, 2), checkpoint_age=None)
    history = collector.runs["r"]
    assert history.label == "digits"
    assert list(history.columns.column("validation")) == [-7.0, -7.0]
    assert list(history.columns.column("dropped")) == [2, 4]
    assert list(history.columns.column("bytes_per_second")) == [2e6, 2e6]
    assert list(history.columns.column("part:update")) == [2.0, 2.0]
    assert math.isnan(history.checkpoint_age(9.0))


def test_time_of_a_worker_counts_tasks_that_overlap_once_and_no_seeding() -> None:
    collector = collected(1)
    for start, stop in ((3.0, 5.0), (4.5, 6.0), (6.5, 7.0)):
        collector.take_task("e-step", "r", "a", [{"action": "compute", "start": start, "stop": stop}])
    collector.take_task("seed-survey", "r", "a", [{"action": "compute", "start": 0.0, "stop": 9.0}])
    collector.take_task("e-step", "r", "a", [{"action": "transfer", "start": 4.0, "stop": 8.0}])
    collector.take(TOPIC, record(1), 8.0)
    assert list(collector.runs["r"].columns.column("worker:a"))[1:] == [3.0 + 0.5]


def test_many_workers_are_shown_as_one() -> None:
    collector = collected(1)
    for iteration in (1, 2):
        for worker in range(100):
            spell = {"action": "compute", "start": 4.0 * iteration, "stop": 4.0 * iteration + 1.0}
            collector.take_task("m-step", "r", f"w{worker:02d}", [spell])
        collector.take(TOPIC, record(iteration), 4.0 * (iteration + 1))
    names = [name for name in collector.runs["r"].columns.names() if name.startswith("worker:")]
    assert len(names) == 33
    assert {tuple(collector.runs["r"].columns.column(name))[1:] for name in names} == {(1.0, 1.0)}


def test_the_last_runs_are_kept_and_those_that_ended_go_first() -> None:
    collector = Collector()
    for k in range(MOST_RUNS):
        collector.take(PAGE_TOPIC, {**BEGIN, "run": f"r{k}"}, float(k))
    collector.take(PAGE_TOPIC, {"run": "r3", "kind": "end", "state": "converged"}, 9.0)
    collector.take(PAGE_TOPIC, {**BEGIN, "run": "new"}, 10.0)
    assert set(collector.runs) == {f"r{k}" for k in range(MOST_RUNS) if k != 3} | {"new"}


def test_a_driver_that_went_away_ends_its_run() -> None:
    collector = collected(1)
    collector.lose_client("Client-2")
    assert collector.runs["r"].state == "running"
    collector.lose_client("Client-1")
    assert collector.runs["r"].state == "its driver went away"


def test_metrics_are_those_of_the_last_pass() -> None:
    collector = collected(3, checkpoint_age=2.0)
    collector.runs["r"].facts["label"] = 'a "b"'
    lines = as_text(metrics_of(collector, now=15.0)).splitlines()
    labels = '{run="r",name="a \\"b\\""}'
    assert f"vmfa_passes_total{labels} 3.0" in lines
    assert f"vmfa_free_energy{labels} {-10 / 3!r}" in lines
    assert f"vmfa_checkpoint_age_seconds{labels} 5.0" in lines
    assert f"vmfa_running{labels} 1.0" in lines
    assert "# TYPE vmfa_passes_total counter" in lines


def test_prometheus_client_gets_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Family:
        def __init__(self, name: str, text: str, labels: tuple[str, ...]) -> None:
            self.name, self.samples = name, list[tuple[dict[str, str], float]]()
            self._labels = labels

        def add_metric(self, values: tuple[str, ...], number: float) -> None:
            self.samples.append((dict(zip(self._labels, values, strict=True)), number))

    core = SimpleNamespace(CounterMetricFamily=Family, GaugeMetricFamily=Family)
    monkeypatch.setitem(sys.modules, "prometheus_client", SimpleNamespace(core=core))
    monkeypatch.setitem(sys.modules, "prometheus_client.core", core)
    families = {family.name: family.samples for family in PrometheusSource(collected(3)).collect()}
    assert families["vmfa_passes"] == [({"run": "r", "name": "digits"}, 3.0)]
    assert families["vmfa_pass_seconds"] == [({"run": "r", "name": "digits"}, 4.0)]
    assert families["vmfa_checkpoint_age_seconds"] == []


def test_names_and_errors_are_text_on_the_page() -> None:
    collector = collected(2)
    history = collector.runs["r"]
    history.facts["label"] = "<b>digits</b>"
    collector.take(PAGE_TOPIC, {"run": "r", "kind": "end", "state": "failed", "reason": "<script>"}, 9.0)
    html = facts_html(history, 10.0)
    assert "&lt;b&gt;digits" in html
    assert "&lt;script&gt;" in html
    assert "<script>" not in html


def test_figures_follow_the_run() -> None:
    collector = collected(3)
    page = Page(collector)
    ((_, view),) = page.views
    assert passes_of(view)["free_energy"] == [-10.0, -5.0, -10 / 3]
    np.testing.assert_equal(passes_of(view)["gain"], [np.nan, 0.5, 0.25])
    assert passes_of(view)["tol"] == [1e-2, 1e-3, 1e-3]
    events: list[Any] = []
    document = Document()
    document.add_root(page.root)
    document.on_change(events.append)
    collector.take(TOPIC, record(3, change=-0.25), 16.0)
    page.update()
    assert page.views[0][1] is view
    assert passes_of(view)["loss"][-1] == 0.25
    assert "ColumnsStreamedEvent" in {type(event).__name__ for event in events}
    collector.take(TOPIC, record(4, validation=-3.0), 20.0)  # has a column that needs a line
    page.update()
    assert page.views[0][1] is not view
    assert list(page.views[0][1].held_out.data["validation"]) == [-3.0]


@pytest.mark.slow
def test_the_page_follows_the_newest_run_until_others_are_chosen() -> None:
    collector = collected(2)
    page = Page(collector)
    collector.take(PAGE_TOPIC, {**BEGIN, "run": "s"}, 20.0)
    page.update()
    assert [name for name, _ in page.views] == ["s"]
    page.selector.active = [0, 1]
    assert [name for name, _ in page.views] == ["s", "r"]
    collector.take(PAGE_TOPIC, {**BEGIN, "run": "t"}, 30.0)
    page.update()
    assert [name for name, _ in page.views] == ["s", "r"]
    assert len(page.selector.labels) == 3


def test_long_runs_are_drawn_with_few_points_that_keep_ends_and_extremes() -> None:
    energies = RNG.normal(size=5000)
    rows = {"pass": np.arange(5000.0), "free_energy": energies, "part:read": np.tile([1.0, 3.0], 2500)}
    stretch = stretch_of(5000)
    drawn = points_of(rows, stretch, frozenset({"part:read"}))
    assert MOST_POINTS / 2 < len(drawn["pass"]) <= MOST_POINTS
    assert (drawn["pass"][0], drawn["pass"][-1]) == (0, 4999)
    assert (np.diff(drawn["pass"]) >= 0).all()
    assert (drawn["free_energy"][0], drawn["free_energy"][-1]) == (energies[0], energies[-1])
    for begin in range(0, 5000, stretch):  # nothing that sticks out is lost
        part = energies[begin : begin + stretch]
        k = 1 + 2 * (begin // stretch)
        assert sorted(drawn["free_energy"][k : k + 2]) == [part.min(), part.max()]
    assert set(drawn["part:read"]) == {2.0}
    gaps = points_of({"pass": np.arange(300.0), "loss": np.full(300, np.nan)}, 4, frozenset())
    assert np.isnan(gaps["loss"]).all()


def test_points_that_come_one_by_one_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "MOST_POINTS", 16)
    monkeypatch.setattr(columns, "MOST_ROWS", 60)
    monkeypatch.setattr(columns, "_LATEST", 24)
    collector, events, document = collected(1), list[Any](), Document()
    page = Page(collector)
    document.add_root(page.root)
    document.on_change(events.append)
    n_replaced = 0
    for iteration in range(1, 100):
        values = {"validation": -3.0 - iteration % 11} if iteration % 3 == 0 else {}
        collector.take(TOPIC, record(iteration, free_energy=float(RNG.normal()), **values), 4.0 * (iteration + 1))
        events.clear()
        page.update()
        passes = page.views[0][1].passes
        replaced = any(type(event).__name__ == "ColumnDataChangedEvent" and event.model is passes for event in events)
        n_replaced += replaced
        if iteration > 20 and not replaced:  # the facts, points that have come, and what has changed of the last ones
            assert len(events) <= 4
        if iteration % 24 == 0:
            view, anew = page.views[0][1], RunView(collector.runs["r"], True)
            np.testing.assert_equal(passes_of(view), passes_of(anew))
            np.testing.assert_equal(dict(view.held_out.data), dict(anew.held_out.data))
    assert 0 < n_replaced < 12  # when points become rarer or passes are left out


def test_the_shading_of_a_phase_in_progress_is_not_sent_again() -> None:
    collector = collected(3)
    page = Page(collector)
    boxes = page.views[0][1]._panels[0].boxes
    assert (boxes["warm-up"].right, boxes["training"].left) == (0.5, 0.5)
    assert not isinstance(boxes["training"].right, float)  # the edge of the frame, as Bokeh calls it
    collector.take(TOPIC, record(3, phase="final"), 16.0)
    page.update()
    assert boxes["training"].right == 2.5


def test_a_failing_page_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    collector = collected(2)
    page = Page(collector)
    collector.runs["r"].facts = {"tol": "none"}
    collector.take(TOPIC, record(2), 12.0)
    page.update()
    page.update()
    assert [entry.levelname for entry in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((8, 8), (0, 1)),
        ((8, 8, 3), (0, 1, 2)),
        ((3, 8, 8), (1, 2, 0)),
        ((64,), None),
        ((8, 2), None),
        ((8, 8, 8), None),
        ((2, 2, 2, 2), None),
    ],
)
def test_which_rows_are_pictures(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> None:
    assert picture_axes(shape) == axes


def test_pictures_are_small_and_keep_their_form() -> None:
    mean = np.zeros((100, 70, 3))
    mean[50:, :, 1] = 5.0
    (picture,) = make_pictures(mean.reshape(1, -1), (100, 70, 3))
    assert picture.shape == (32, 32, 3)
    assert (picture[:16] == 0).all()
    assert (picture[16:, :, 1] == 255).all()
    channels_first = make_pictures(mean.transpose(2, 0, 1).reshape(1, -1), (3, 100, 70))
    np.testing.assert_array_equal(channels_first[0], picture)


def test_png_holds_the_pixels() -> None:
    picture = RNG.integers(0, 256, (5, 7, 3)).astype(np.uint8)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(as_png(picture)))), picture)
    gray = np.asarray(Image.open(io.BytesIO(as_png(picture[..., :1]))))
    np.testing.assert_array_equal(gray, picture[..., 0])


def test_a_fit_is_on_the_page_with_what_it_was(in_process: Client, tmp_path: Path) -> None:
    run = tmp_path / "my-run"
    fit = fit_distributed(ROWS, client=in_process, run=str(run), checkpoint_share=1.0, **OPTIONS)
    history = next(h for h in reversed(collector_of(in_process).runs.values()) if h.label == "my-run")
    assert list(history.columns.column("free_energy")) == [r.free_energy for r in fit.history]
    assert history.state in ("converged", "ended at max_iter")
    assert history.facts["feature_shape"] == [6, 5]
    assert 0 <= history.columns.last("checkpoint_age") < 60
    (worker,) = [name for name in history.columns.names() if name.startswith("worker:")]
    busy, seconds = history.columns.column(worker), history.columns.column("seconds")
    assert all(0 < b <= s * 1.1 + 0.05 for b, s in zip(busy, seconds, strict=True))
    assert history.pictures is not None
    assert history.pictures["shape"] == [4, 6, 5, 1]
    weights = np.sort(fit.model.weights)[::-1]
    np.testing.assert_allclose(history.pictures["weights"], weights, rtol=1e-5)
    kept = in_process.get_events()
    assert PAGE_TOPIC not in kept  # pictures would fill the memory of the scheduler
    assert not any("pixels" in event for _, event in kept[TOPIC])


def test_passes_before_a_run_was_resumed_are_on_the_page(in_process: Client, tmp_path: Path) -> None:
    def fit(max_iter: int) -> Any:
        keywords = {**OPTIONS, "max_iter": max_iter, "tol": 0.0, "empty_components": "drop"}
        return fit_distributed(ROWS, client=in_process, run=str(tmp_path / "resumed"), **keywords)

    fit(3)
    longer = fit(6)
    history = list(collector_of(in_process).runs.values())[-1]
    numbers = [record.iteration for record in longer.history]
    assert list(history.columns.column("pass")) == numbers


def test_a_fit_that_failed_says_so(in_process: Client) -> None:
    def fail(record: Any) -> None:
        raise OSError("no paper")

    with pytest.raises(OSError, match="no paper"):
        fit_distributed(ROWS, client=in_process, progress=fail, **OPTIONS)
    history = list(collector_of(in_process).runs.values())[-1]
    assert history.state == "failed"
    assert "no paper" in history.reason


@pytest.mark.slow
def test_the_page_is_served_and_linked(in_process: Client) -> None:
    install_page(in_process)
    fit_distributed(ROWS, client=in_process, **OPTIONS)
    assert 'href="vmfa"' in fetch(at(in_process, "status"))
    assert 'href="status"' in fetch(at(in_process, "vmfa"))
    assert "vmfa_passes_total{" in fetch(at(in_process, "vmfa/metrics"))
    session = pull_session(url=at(in_process, "vmfa"))
    try:
        sources = list(session.document.select({"type": ColumnDataSource}))
        newest = list(collector_of(in_process).runs.values())[-1]
        curves = [list(source.data["free_energy"]) for source in sources if "free_energy" in source.data]
        assert curves == [list(newest.columns.column("free_energy"))]
        (selector,) = session.document.select({"type": CheckboxButtonGroup})
        assert len(selector.labels) == len(collector_of(in_process).runs)
        assert any("data:image/png" in div.text for div in session.document.select({"type": Div}))
    finally:
        session.close()


def test_the_page_is_below_the_prefix_of_the_dashboard_with_relative_links() -> None:
    with local_cluster(0, processes=False, scheduler_kwargs={"http_prefix": "/on/proxy"}) as cluster:
        with Client(cluster, set_as_default=False) as client:
            assert install_page(client)
            assert install_page(client)  # once more changes nothing
            page = fetch(at(client, "on/proxy/vmfa"))
            assert "127.0.0.1" not in page
            assert 'src="http' not in page
            assert fetch(at(client, "on/proxy/vmfa/metrics")).startswith("# HELP vmfa_running")
            with pytest.raises(urllib.error.HTTPError, match="404"):
                fetch(at(client, "vmfa"))
            pull_session(url=at(client, "on/proxy/vmfa")).close()


def test_a_scheduler_without_dashboard_collects_all_the_same() -> None:
    with local_cluster(0, processes=False, scheduler_kwargs={"dashboard": False}) as cluster:
        with Client(cluster, set_as_default=False) as client:
            assert install_page(client)
            client.log_event(TOPIC, record(0))
            assert 'vmfa_passes_total{run="r",name="r"} 1.0' in fetch(at(client, "vmfa/metrics"))


def test_events_from_before_the_page_are_taken() -> None:
    with local_cluster(0, processes=False) as cluster, Client(cluster, set_as_default=False) as client:
        client.log_event(TOPIC, record(0))
        assert install_page(client)
        assert collector_of(client).runs["r"].n_passes == 1


def test_a_plugin_that_fails_disturbs_no_run(
    in_process: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any) -> None:
        raise ValueError("broken")

    install_page(in_process)
    plugin = in_process.cluster.scheduler.plugins[NAME]
    monkeypatch.setattr(plugin, "_failed", False)
    monkeypatch.setattr(Collector, "take", fail)
    monkeypatch.setattr(Collector, "take_task", fail)
    assert fit_distributed(ROWS, client=in_process, **OPTIONS).history
    assert [entry.name for entry in caplog.records if "broken" in str(entry.exc_text)] == [
        "vmfa_dask.cluster.page.plugin"
    ]


def test_a_scheduler_that_takes_no_plugins_is_one_line_of_the_log(
    in_process: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: Client, *arguments: Any, **keywords: Any) -> None:
        raise ModuleNotFoundError("No module named 'vmfa_dask'")

    caplog.set_level(logging.INFO, installation.__name__)
    monkeypatch.setattr(Client, "register_plugin", refuse)
    n_runs = len(collector_of(in_process).runs)
    assert fit_distributed(ROWS, client=in_process, **OPTIONS).history
    assert len(collector_of(in_process).runs) <= n_runs + 1  # records are announced all the same
    lines = [entry.getMessage() for entry in caplog.records if entry.name.startswith("vmfa_dask.cluster.page")]
    assert lines == ["no page of runs on the dashboard: ModuleNotFoundError: No module named 'vmfa_dask'"]


def test_the_page_is_a_preload_of_schedulers() -> None:
    preload = {"preload": ["vmfa_dask.cluster.page"]}
    with local_cluster(0, processes=False, scheduler_kwargs=preload) as cluster:
        assert isinstance(cluster.scheduler.plugins[NAME], PagePlugin)
        with Client(cluster, set_as_default=False) as client:
            assert "vmfa_running" in fetch(at(client, "vmfa/metrics"))
            assert install_page(client)
            assert 'href="vmfa"' in fetch(at(client, "status"))
            assert fetch(at(client, "status")).count('href="vmfa"') == 1


@pytest.mark.slow
def test_scores_of_held_out_rows_are_on_the_page(in_process: Client) -> None:
    fit = fit_distributed(ROWS, client=in_process, validation=0.25, **OPTIONS)
    (_, view), *_ = Page(collector_of(in_process)).views
    scores = [record.validation for record in fit.history if record.validation is not None]
    assert scores
    assert list(view.held_out.data["validation"]) == scores
