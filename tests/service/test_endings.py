"""Whatever ends a fit, one sentence says what is left of it and how to keep it; Ctrl-C shows little else."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, KilledWorker

from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import IterationRecord, fit_distributed, fit_local
from vmfa_dask.service.checkpoints import KeptRun
from vmfa_dask.service.endings import ending_by_signals

ROOT = Path(__file__).parents[2]
ROWS = draw(make_mixture(3, 6, 1), 600, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 3, "n_factors": 1, "n_groups": 4, "max_warmup_iter": 2, "max_iter": 6, "tol": 0.0,
}  # fmt: skip
KEEP = "as nothing was kept: pass run='folder' to keep runs"
LOST = rf"after pass 3 \(training\); 4 passes and .*s of work are lost, {KEEP}"


def interrupt(word: str, delay: float, name: str, *run: str) -> tuple[int, list[str]]:
    """Exit status and lines of standard error of a script that gets a signal after a word, as its terminal sends it.

    Ctrl-C goes to all processes of the terminal, SIGTERM to one.
    """
    command = [sys.executable, "-m", "tests.cluster.interrupted_script", *run]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, **pipes) as script:
        assert script.stdout is not None
        try:
            while not (line := script.stdout.readline()).startswith(word):
                assert line
            time.sleep(delay)
            send = partial(os.killpg, script.pid) if name == "SIGINT" else script.send_signal
            send(getattr(signal, name))
            _, error = script.communicate(timeout=60)
        finally:
            script.kill()
    return script.returncode, error.splitlines()


@pytest.mark.long
@pytest.mark.parametrize(
    ("word", "delay", "words"),
    [
        ("ready", 2.0, r"before the first pass( was complete; .* of work are lost, as nothing was kept|: no work)"),
        ("pass 1", 0.0, r"after pass \d \(warm-up\); \d passes and .* of work are lost, .* pass run='folder'"),
        ("pass 6", 0.0, r"after pass \d+ \(training\); \d+ passes and .* of work are lost, .* pass run='folder'"),
    ],
)
def test_ctrl_c_is_a_sentence(word: str, delay: float, words: str) -> None:
    status, lines = interrupt(word, delay, "SIGINT")
    assert status == -signal.SIGINT
    (said,) = [line for line in lines if line.startswith("KeyboardInterrupt")]
    assert re.search(words, said), lines
    others = ("AllExit", "Process Dask Worker", "Exception ignored", "another exception", "direct cause")
    assert not [line for line in lines if any(word in line for word in others)], lines


@pytest.mark.long
@pytest.mark.parametrize(("name", "kept"), [("SIGTERM", False), ("SIGINT", True)])
def test_signals_name_the_folder_and_the_pass(tmp_path: Path, name: str, kept: bool) -> None:
    run = str(tmp_path / "run")
    status, lines = interrupt("pass 5", 0.0, name, *([run] if kept else []))
    assert status == (-signal.SIGINT if name == "SIGINT" else 128 + signal.SIGTERM)
    words = f"the run is kept in {run} up to pass" if kept else "passes and"
    assert len([line for line in lines if words in line]) == 1, lines


@pytest.mark.slow
def test_an_interrupted_fit_leaves_its_workers_alive(tmp_path: Path) -> None:
    """One that ignores Ctrl-C for the time of a fit answers to it afterwards as before."""
    program = """
import signal, os
from distributed import Client
from tests.clusters import local_cluster
from tests.service.test_endings import OPTIONS, ROWS
from vmfa_dask import fit_distributed
if __name__ == "__main__":
    def handlers(client):
        return set(client.run(lambda: str(__import__("signal").getsignal(2))).values())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with local_cluster(1) as cluster, Client(cluster, set_as_default=False) as client:
        before, workers = handlers(client), client.run(os.getpid)
        during = []
        def interrupt(record):
            during.append(handlers(client))
            if record.iteration == 1:
                os.killpg(os.getpgrp(), signal.SIGINT)
        try:
            fit_distributed(ROWS, client=client, progress=interrupt, **OPTIONS)
        except KeyboardInterrupt as error:
            print(error)
        assert during == [{"Handlers.SIG_IGN"}] * 2 or during == [{"1"}] * 2, during
        assert before == handlers(client) != during[0]
        assert client.run(os.getpid) == workers
        print(len(fit_distributed(ROWS, client=client, **OPTIONS).history))
"""
    (tmp_path / "script.py").write_text(program)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    said, passes = done.stdout.splitlines()
    assert re.match(r"the fit was interrupted after pass 1 \(warm-up\); 2 passes and", said)
    assert int(passes) > 3


def fail_with(error: BaseException, iteration: int = 3) -> Any:
    def progress(record: IterationRecord) -> None:
        if record.iteration == iteration:
            raise error

    return progress


ERRORS = [ValueError("mine"), MemoryError("no room"), KilledWorker("key", None, 4), OSError(28, "full")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("place", ["local", "in process", "processes"])
def test_errors_stay_what_they_are_and_have_a_note(
    error: Exception, place: str, in_process: Client, processes: Client
) -> None:
    error = type(error)(*error.args)
    client = in_process if place == "in process" else processes
    fit: Any = fit_local if place == "local" else partial(fit_distributed, client=client)
    with pytest.raises(type(error)) as raised:
        fit(ROWS, progress=fail_with(error), **OPTIONS)
    assert raised.value is error
    (note,) = error.__notes__
    assert re.match(f"the fit ended {LOST}$", note)


def test_before_the_first_pass_only_time_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> int:
        raise MemoryError("no room")

    fit_local(ROWS, **OPTIONS)  # compiling makes a tiny fit, which begins, too
    monkeypatch.setattr("vmfa_dask.run.algorithm.initialize", fail)
    with pytest.raises(MemoryError) as raised:
        fit_local(ROWS, **OPTIONS)
    (note,) = raised.value.__notes__
    assert re.match(rf"the fit ended before the first pass was complete; .*s of work are lost, {KEEP}$", note)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("mine"), SystemExit(143)])
def test_with_a_folder_the_pass_is_named_that_is_kept(
    error: BaseException, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    with pytest.raises(type(error)) as raised:
        fit_local(ROWS, run=run, progress=fail_with(error), **OPTIONS)
    said = str(raised.value) if isinstance(error, KeyboardInterrupt) else raised.value.__notes__[0]
    assert said.endswith(
        f"after pass 3 (training); the run is kept in {run} up to pass 3: the same call goes on from there"
    )
    assert caplog.text.count("the run is kept") == isinstance(error, SystemExit)
    fit = fit_local(ROWS, run=run, resume="require", **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS).model)


@pytest.mark.parametrize("before", [None, 0, 2])
def test_a_pass_that_cannot_be_kept_is_said_with_its_cause(
    before: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full from some pass on: what ended the run stays the error, and the older pass is named."""
    real, run = KeptRun.keep_latest, tmp_path / "run"

    def keep(kept: KeptRun) -> None:
        state = kept._latest
        if before is None or (state is not None and len(state.records) > before):
            raise OSError(28, "No space left on device")
        real(kept)

    monkeypatch.setattr(KeptRun, "keep_latest", keep)
    monkeypatch.setattr(KeptRun, "keep", lambda kept, state: setattr(kept, "_latest", state) or _try(kept))
    with pytest.raises(ValueError, match="mine") as raised:
        fit_local(ROWS, run=run, progress=fail_with(ValueError("mine")), **OPTIONS)
    note = raised.value.__notes__[0]
    assert "after pass 3 (training); it could not be kept (OSError: [Errno 28] No space left on device); " in note
    there = {None: "nothing is kept in", 0: "up to its start:", 2: "up to pass 1:"}[before]
    assert there in note


def _try(kept: KeptRun) -> None:
    """Keep a state of a run; the error of a full disk comes at the end alone."""
    try:
        kept.keep_latest()
    except OSError:
        pass


def test_an_end_before_any_work_is_a_sentence_too(caplog: pytest.LogCaptureFixture) -> None:
    said = r"^the fit was interrupted before the first pass: no work is lost$"
    with pytest.raises(KeyboardInterrupt, match=said) as e, ending_by_signals():
        raise KeyboardInterrupt
    assert e.value.__suppress_context__
    with pytest.raises(KeyboardInterrupt, match=r"^mine$"), ending_by_signals():
        raise KeyboardInterrupt("mine")
    with pytest.raises(SystemExit), caplog.at_level(logging.WARNING), ending_by_signals():
        raise SystemExit(143)
    assert "the fit was ended before the first pass: no work is lost" in caplog.text


class Interrupted:
    """Gets a signal while it is destroyed."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)
        for _ in range(1000):  # where the handler is called
            pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_in_a_destructor_are_not_lost(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    hook, before = sys.unraisablehook, signal.signal(signal.SIGINT, signal.default_int_handler)
    error: type[BaseException] = KeyboardInterrupt if number == signal.SIGINT else SystemExit
    steps = []

    def work() -> None:
        thing = Interrupted(number)
        del thing
        steps.append("after the destructor")
        time.sleep(20)
        steps.append("too late")

    try:
        with pytest.raises(error) as raised, ending_by_signals():
            work()
    finally:
        signal.signal(signal.SIGINT, before)
    assert steps == ["after the destructor"]
    assert sys.unraisablehook is hook
    assert "the fit was interrupted" in str(raised.value) or raised.value.code == 128 + number
    assert capsys.readouterr().err == ""


def test_other_errors_in_a_destructor_are_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __del__(self) -> None:
            raise ValueError("mine")

    reported: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: reported.append(str(dropped.exc_value)))
    with ending_by_signals():
        Broken()
    assert reported == ["mine"]


def test_the_exchange_of_a_run_that_ends_early_is_removed(tmp_path: Path, processes: Client) -> None:
    store = write_store(tmp_path / "x.zarr", ROWS, 100)
    (tmp_path / "s").mkdir()
    with pytest.raises(KeyboardInterrupt, match=LOST):
        fit_distributed(
            store, client=processes, scratch=tmp_path / "s", progress=fail_with(KeyboardInterrupt()), **OPTIONS
        )
    assert not list((tmp_path / "s").iterdir())
