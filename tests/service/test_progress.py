"""How fits show what they do: in a terminal, in a notebook, in a pipe, and not at all."""

from __future__ import annotations

import io
import logging
import sys
import threading
from typing import Any

import numpy as np
import pytest
from distributed import Client

import vmfa_dask.service.progress as progress
from tests.samples import draw, make_mixture
from tests.terminals import screen, terminal
from vmfa_dask import IterationRecord, MixtureOfFactorAnalyzers, denoise, fit_distributed, fit_local
from vmfa_dask.service.progress_texts import rounded

ROWS = draw(make_mixture(5, 8, 3), 400, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 6, "n_factors": 3, "n_groups": 3,
    "max_iter": 3, "max_warmup_iter": 2, "tol": 0.0, "warmup_tol": 0.0,
}  # fmt: skip
PHASES = ["warm-up: 2 passes in", "training: 3 passes in", "final: 1 pass in"]


@pytest.fixture(autouse=True)
def every_change_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LEAST_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")


class Notebook(io.StringIO):
    """As `ipykernel.iostream.OutStream`."""


Notebook.__module__ = "ipykernel.iostream"


def assert_phases_remain(lines: list[str]) -> None:
    assert [line.startswith(phase) for line, phase in zip(lines, PHASES, strict=False)] == [True] * 3
    assert lines[3:] == [""]
    assert ", max_iter reached, free energy -" in lines[1]


def test_a_terminal_shows_a_fit_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal() as shown:
        monkeypatch.setattr(sys, "stderr", shown.stream)
        fit_local(ROWS, **OPTIONS)
        written = shown.end()
    assert_phases_remain(screen(written))
    lines = [line.strip() for line in written.replace("\n", "\r").split("\r")]
    assert "preparing kernels (compiled once per machine) ..." in lines
    assert "seeding: survey, 3/3 groups" in lines
    assert "warm-up: pass 1 of at most 2, 0/3 groups" in lines
    found = [line for line in lines if line.startswith("training: pass 3 of at most 3, 2/3 groups, gain ")]
    assert len(found) == 1
    assert "(tol 0e+00), at most 0 s left, free energy -" in found[0]
    assert any(line.startswith("evaluation, 1/3 groups") for line in lines)


@pytest.mark.parametrize("columns", [20, 80])
def test_lines_fit_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(columns) as shown:
        monkeypatch.setattr(sys, "stderr", shown.stream)
        fit_local(ROWS, **OPTIONS)
        written = shown.end()
    changing = [line for row in written.replace("\r\n", "\n").split("\n") for line in row.split("\r")[:-1]]
    assert 10 < max(map(len, changing)) < columns
    assert_phases_remain(screen(written))


def test_workers_tell_of_their_groups(in_process: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal() as shown:
        monkeypatch.setattr(sys, "stderr", shown.stream)
        fit = fit_distributed(ROWS, client=in_process, **OPTIONS)
        written = shown.end()
    assert "training: pass 3 of at most 3, 3/3 groups" in written
    assert "seeding: survey, 3/3 groups" in written
    assert screen(written)[0].startswith("dashboard: http")
    assert_phases_remain(screen(written)[1:])
    silent = fit_distributed(ROWS, client=in_process, verbose=0, **OPTIONS)
    assert [record.free_energy for record in fit.history] == [record.free_energy for record in silent.history]


def test_results_of_workers_are_not_held(in_process: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A display waits for the tasks of groups, whose results are the largest of a run."""
    held: list[int] = []

    def count(record: IterationRecord) -> None:
        held.append(sum(str(key).startswith("('e-step-") for key in in_process.futures))

    with terminal() as shown:
        monkeypatch.setattr(sys, "stderr", shown.stream)
        fit_distributed(ROWS, client=in_process, verbose=1, progress=count, **OPTIONS)
    assert held == [0] * 6


def test_an_interrupt_leaves_a_clean_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(progress.LiveLine):
        def task_done(self, name: str) -> None:
            super().task_done(name)
            if self._pass is not None and self._pass[0].phase == "training":
                raise KeyboardInterrupt

    monkeypatch.setattr(progress, "LiveLine", Interrupted)
    with terminal() as shown:
        monkeypatch.setattr(sys, "stderr", shown.stream)
        with pytest.raises(KeyboardInterrupt, match="the fit was interrupted after pass 1"):
            fit_local(ROWS, **OPTIONS)
        written = shown.end()
    assert "training: pass 1" in written
    lines = screen(written)
    assert [line[:8] for line in lines] == ["warm-up:", ""]


def test_the_line_and_the_log_share_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("vmfa_dask")
    with terminal(200) as shown:
        handler = logging.StreamHandler(shown.stream)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        monkeypatch.setattr(sys, "stderr", shown.stream)
        try:
            fit = fit_local(ROWS, **OPTIONS)
        finally:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
        lines = screen(shown.end())
    for record in fit.history:
        assert lines.count(record.line()) == 1  # whole, and nothing behind it
    assert [line.split(" in ")[0] + " in" for line in lines if " in " in line and "free energy" in line] == PHASES


def test_a_notebook_gets_the_same_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Notebook()
    monkeypatch.setattr(sys, "stderr", stream)
    fit_local(ROWS, **OPTIONS)
    written = stream.getvalue()
    assert "\rtraining: pass 3 of at most 3, 3/3 groups" in written
    assert_phases_remain(screen(written))


def test_a_pipe_gets_nothing_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    records: list[IterationRecord] = []
    fit_local(ROWS, **OPTIONS)
    fit_local(ROWS, verbose=0, progress=records.append, **OPTIONS)
    assert capsys.readouterr() == ("", "")
    fit = fit_local(ROWS, verbose=1, progress=records.append, **OPTIONS)
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", [record.line() for record in fit.history])
    assert len(records) == 2 * len(fit.history)


@pytest.mark.parametrize("reason", ["verbose", "progress", "thread", "dumb"])
def test_a_terminal_that_is_not_for_it_stays_empty(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keywords: dict[str, Any] = {"verbose": {"verbose": 0}, "progress": {"progress": id}}.get(reason, {})
    if reason == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    with terminal() as shown:
        monkeypatch.setattr(sys, "stderr", shown.stream)
        if reason == "thread":
            thread = threading.Thread(target=fit_local, args=(ROWS,), kwargs=OPTIONS)
            thread.start()
            thread.join()
        else:
            fit_local(ROWS, **keywords, **OPTIONS)
        assert shown.end() == ""


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (99, "99 s"), (336, "6 min"), (7200, "2 h")])
def test_times_are_rounded(seconds: float, text: str) -> None:
    assert rounded(seconds) == text


def test_a_resumed_run_begins_at_its_pass(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"run": tmp_path / "run", "checkpoint_share": 1.0}
    fit_local(ROWS, **kept, **{**OPTIONS, "max_iter": 2})
    with terminal() as shown:
        monkeypatch.setattr(sys, "stderr", shown.stream)
        fit_local(ROWS, **kept, **{**OPTIONS, "max_iter": 5})
        written = shown.end()
    assert "training: pass 2 of" not in written
    assert "training: pass 3 of at most 5" in written
    assert screen(written)[0].startswith("training: 5 passes in")


def test_a_terminal_that_goes_away_ends_no_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal() as shown:
        monkeypatch.setattr(sys, "stderr", shown.stream)
        shown.end()
        assert len(fit_local(ROWS, verbose=1, **OPTIONS).history) == 6


def test_estimators_are_silent_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal() as shown:
        monkeypatch.setattr(sys, "stderr", shown.stream)
        sizes: dict[str, Any] = {"n_components": 6, "n_factors": 3, "tol": 0.1}
        MixtureOfFactorAnalyzers(**sizes).fit(ROWS)
        shown.stream.write("silent\n")
        MixtureOfFactorAnalyzers(**sizes, verbose=1).fit(ROWS)
        lines = screen(shown.end())
    assert lines[0] == "silent"
    assert "converged" in lines[2]


def test_denoise_shows_its_training(capsys: pytest.CaptureFixture[str]) -> None:
    image = np.random.default_rng(0).normal(size=(24, 24)).astype(np.float32)
    records: list[IterationRecord] = []
    denoise(image, n_components=6, n_factors=3, patch=(4, 4), verbose=1, progress=records.append)
    assert capsys.readouterr().err.splitlines() == [record.line() for record in records]


@pytest.mark.parametrize("verbose", [-1, "yes", 0.5])
def test_what_is_no_number_is_refused(verbose: Any) -> None:
    with pytest.raises(ValueError, match=f"verbose={verbose!r}: expected 0, 1, or None"):
        fit_local(ROWS, verbose=verbose, **OPTIONS)
