"""Workers that come during a run, or differ from the others, are refused in a sentence; none of them computes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster, get_worker

from tests.clusters import local_cluster
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import IterationRecord, fit_distributed, fit_local
from vmfa_dask.cluster.conditions import Conditions, check_processors, warn_of_idle_workers
from vmfa_dask.cluster.package_versions import version_here
from vmfa_dask.cluster.worker_watch import WorkerWatch
from vmfa_dask.cluster.workers import ask
from vmfa_dask.kernels.processor import Processor, how_to_agree, this_processor
from vmfa_dask.kernels.vector import _vector_unit
from vmfa_dask.store.rows import ZarrRows

ROWS = draw(make_mixture(3, 6, 1), 600, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 3, "n_factors": 1, "n_groups": 12, "max_warmup_iter": 1, "max_iter": 8, "tol": 0.0,
}  # fmt: skip
NARROW = {"NUMBA_CPU_NAME": "generic"}
WIDTHS = r"vectors of 128 bits\b"


@pytest.fixture(scope="module")
def own() -> Iterator[Client]:
    """Two workers that are changed here."""
    with local_cluster(2) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_store(tmp_path_factory.mktemp("late") / "x.zarr", ROWS, 50)


def workers_of(client: Client) -> list[str]:
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


@pytest.mark.parametrize(
    ("features", "triple", "unit"),
    [
        ("+avx512f,+avx2,+avx", "x86_64-unknown-linux-gnu", (64, 32)),
        ("-avx512f,+avx2,+avx", "x86_64-unknown-linux-gnu", (32, 16)),
        ("+avx2,+fma", "x86_64-pc-windows-msvc", (32, 16)),
        ("+avx", "x86_64-apple-darwin", (32, 16)),
        ("+sse2,-avx", "x86_64-unknown-linux-gnu", (16, 16)),
        ("", "x86_64-unknown-linux-gnu", (16, 16)),
        ("+neon", "aarch64-unknown-linux-gnu", (16, 32)),
        ("", "arm64-apple-darwin", (16, 32)),
    ],
)
def test_registers_are_those_that_numba_compiles_for(features: str, triple: str, unit: tuple[int, int]) -> None:
    assert _vector_unit(triple, features) == unit


HERE = Processor("x86_64", 512, "little", "znver4")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(HERE, vector_bits=256), "NUMBA_CPU_NAME=haswell and NUMBA_CPU_FEATURES=+avx2,+fma in the environment"),
        (replace(HERE, vector_bits=128), "NUMBA_CPU_NAME=generic in the environment of all workers"),
        (replace(HERE, machine="aarch64", vector_bits=128), "use workers of one architecture"),
        (replace(HERE, byte_order="big"), "use workers of one architecture"),
    ],
)
def test_processors_that_round_differently_are_refused(own: Client, other: Processor, words: str) -> None:
    assert not HERE.rounds_as(other)
    assert words in how_to_agree([HERE, other])
    assert words in how_to_agree([other, HERE])
    first, second = workers_of(own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vmfa_dask.cluster.conditions.ask", lambda client, function: {first: HERE, second: other})
        with pytest.raises(RuntimeError, match="processors round sums differently") as refused:
            check_processors(own)
    text = str(refused.value)
    assert words in text
    assert all(f"{kind}: {worker}" in text for kind, worker in ((HERE, first), (other, second)))


def test_models_of_the_same_width_are_a_warning(own: Client, caplog: pytest.LogCaptureFixture) -> None:
    first, second = workers_of(own)
    answers = {first: HERE, second: replace(HERE, model="skylake-avx512")}
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING, logger="vmfa_dask"):
        patch.setattr("vmfa_dask.cluster.conditions.ask", lambda client, function: answers)
        assert check_processors(own) is not None
        assert "NUMBA_CPU_NAME=skylake-avx512" in caplog.text
        caplog.clear()
        check_processors(own, warn=False)
    assert not caplog.records


def test_workers_without_a_group_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="vmfa_dask"):
        warn_of_idle_workers(6, 6)
        assert not caplog.records
        warn_of_idle_workers(6, 16)
    assert "6 groups of rows for 16 workers, of which 10 have nothing to do" in caplog.text
    assert "n_groups=32" in caplog.text


def test_equal_workers_pass_in_silence(own: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="vmfa_dask"):
        assert check_processors(own) == this_processor()
    assert not caplog.records


def add_worker(cluster: LocalCluster, **environment: str) -> None:
    """One more worker, with another environment."""
    spec = dict(cluster.new_worker_spec().popitem()[1])
    spec["options"] = {**spec["options"], "env": environment}
    cluster.worker_spec["late"] = spec
    cluster.sync(cluster._correct_state)


@pytest.mark.slow
def test_a_real_mixture_of_widths_is_refused_before_and_during_a_run(store: str) -> None:
    if this_processor().vector_bits == 128:
        pytest.skip("needs a processor with vectors of more than 128 bits")
    passes: list[int] = []
    with local_cluster(1, silence_logs=logging.CRITICAL) as cluster, Client(cluster, set_as_default=False) as client:

        def report(record: IterationRecord) -> None:
            passes.append(record.iteration)
            if record.iteration == 1:
                add_worker(cluster, **NARROW)
                client.wait_for_workers(2, timeout=60)

        with pytest.raises(RuntimeError, match=WIDTHS) as refused:
            fit_distributed(store, client=client, progress=report, **{**OPTIONS, "max_iter": 10**6})
        assert passes[0] == 0
        for word in ("tcp://127.0.0.1:", "generic without FMA (", "NUMBA_CPU_NAME=generic in the environment"):
            assert word in str(refused.value)
        with pytest.raises(RuntimeError, match=WIDTHS):
            fit_distributed(store, client=client, **OPTIONS)


# What a worker that comes late does with its first task: nothing passes that the check at the beginning would refuse.

CONDITIONS = Conditions("1.0", HERE, 2**30, (600, 6), "float32")


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({}, RuntimeError, rf"^worker tcp://\S+ has version {version_here()} of vmfa_dask, and the run 1\.0; install"),
        (
            {"version": version_here(), "processor": replace(this_processor(), vector_bits=64)},
            RuntimeError,
            r"^worker tcp://\S+ computes with .* round sums differently; use workers of one",
        ),
        (
            {"version": version_here(), "processor": this_processor(), "total_bytes": 2**31},
            MemoryError,
            r"^worker tcp://\S+ has a limit of 2048 MiB, and the run needs 2048 MiB there, .* at least 2560 MiB",
        ),
    ],
)
def test_first_tasks_check_their_worker(
    own: Client, changes: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    conditions = replace(CONDITIONS, **changes)
    with pytest.raises(error, match=words):
        own.submit(conditions.check_worker, str(tmp_path), pure=False).result(30)


def test_a_folder_that_a_late_worker_misses_is_not_made_there(own: Client, tmp_path: Path) -> None:
    conditions = replace(CONDITIONS, version=version_here(), processor=None)
    with pytest.raises(FileNotFoundError, match=r"^worker tcp://\S+ does not see the folder .*/nothing .* scratch="):
        own.submit(conditions.check_worker, str(tmp_path / "nothing"), pure=False).result(30)
    assert not (tmp_path / "nothing").exists()


def test_a_late_worker_with_less_memory_caches_less(own: Client, tmp_path: Path) -> None:
    conditions = replace(CONDITIONS, version=version_here(), processor=None)
    room = own.submit(conditions.check_worker, str(tmp_path), pure=False).result(30)
    assert room == int((0.8 * 2**31 - 2**30) / 2)


def test_other_rows_on_a_late_worker_are_refused(own: Client, store: str) -> None:
    def check(conditions: Conditions) -> str:
        conditions.check_rows(ZarrRows(store))
        return str(get_worker().address)

    conditions = replace(CONDITIONS, version=version_here())
    assert own.submit(check, conditions, pure=False).result(30).startswith("tcp://")
    for change in ({"shape": (300, 6)}, {"dtype": "float64"}):
        with pytest.raises(FileNotFoundError, match=r"^worker tcp://\S+: .*the driver finds \("):
            own.submit(check, replace(conditions, **change), pure=False).result(30)


@pytest.mark.parametrize("moment", ["between passes", "within a pass"])
@pytest.mark.slow
def test_another_version_during_a_run_ends_it_with_its_worker(
    own: Client, store: str, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that has come is stood in for by one that is changed; within a pass nobody but its own task looks."""
    look = WorkerWatch.look
    if moment == "between passes":

        def forget_one(watch: WorkerWatch) -> None:
            watch._known.discard(workers_of(own)[0])
            look(watch)

        monkeypatch.setattr(WorkerWatch, "look", forget_one)
    worker, run = workers_of(own)[0], tmp_path / "run"

    def report(record: IterationRecord) -> None:
        if record.iteration == 2:
            own.run(change_version, "0.0.1", workers=[worker])

    with pytest.raises(RuntimeError, match=r"0\.0\.1") as refused:
        fit_distributed(
            store, client=own, run=run, checkpoint_share=1, progress=report, **{**OPTIONS, "max_iter": 10**5}
        )
    assert worker in str(refused.value)
    own.run(change_version, version_here(), workers=[worker])
    fit = fit_distributed(store, client=own, run=run, resume="require", **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(store, **OPTIONS).model)


def change_version(version: str) -> None:
    """Another version, and no context of the run: as a worker that has just come."""
    import vmfa_dask
    from vmfa_dask.cluster import worker_context

    vmfa_dask.__version__ = version
    worker_context._contexts.clear()
    worker_context._made_by_tasks.clear()


@pytest.mark.slow
def test_a_real_worker_of_another_version_ends_a_run_with_a_table(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not even read a task: Dask loses it over each one, and its nanny brings it back."""
    package = tmp_path / "vmfa_dask"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '0.0.9'")
    look, late = WorkerWatch.look, list[subprocess.Popen[bytes]]()
    with local_cluster(1, silence_logs=logging.CRITICAL) as cluster, Client(cluster, set_as_default=False) as client:
        command = [sys.executable, "-m", "dask", "worker", cluster.scheduler_address, "--host", "127.0.0.1"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

        def come_and_look(watch: WorkerWatch) -> None:
            if not late:
                late.append(subprocess.Popen([*command, "--no-dashboard"], cwd=tmp_path, env=environment, **quiet))
                client.wait_for_workers(2, timeout=60)
            look(watch)

        monkeypatch.setattr(WorkerWatch, "look", come_and_look)
        try:
            with pytest.raises(RuntimeError, match=r"same version of vmfa_dask(.|\n)* 0\.0\.9 on worker tcp://"):
                fit_distributed(store, client=client, **OPTIONS)
        finally:
            for process in late:
                process.terminate()
                process.wait(30)


@pytest.mark.parametrize("error", [MemoryError, PermissionError])
def test_errors_of_a_question_are_raised_as_they_are(own: Client, error: type[Exception]) -> None:
    worker = workers_of(own)[1]

    def fail(error: type[Exception], worker: str, dask_worker: Any) -> int:
        if dask_worker.address == worker:
            raise error("it")
        return 1

    with pytest.raises(error, match="it") as raised:
        ask(own, fail, error, worker)
    assert f"on worker {worker}" in raised.value.__notes__
