"""A short part of `make fuzz`, and faults that it must find."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import watching
from tests.fuzz.judging import judge, subjects
from tests.fuzz.targets import TARGETS, Target

CASES = 2_000
SECONDS = 200.0


@pytest.mark.timeout(300)
def test_damage_is_refused_by_name_or_changes_nothing(tmp_path: Path) -> None:
    subjects(tmp_path, TARGETS)
    judged = list(watching.outcomes(tmp_path, TARGETS, seed=1, seconds=SECONDS, most=CASES))
    assert [outcome for outcome in judged if outcome.is_fault] == []
    assert len(judged) > CASES // 4  # on a slow machine the time ends it
    assert {outcome.verdict for outcome in judged} >= {"refused", "clean"}


def _write(folder: Path) -> None:
    (folder / "rows").write_bytes(bytes(range(64)))


def _silent(folder: Path) -> bytes:
    return (folder / "rows").read_bytes()


def _raw(folder: Path) -> None:
    if _silent(folder) != bytes(range(64)):
        json.loads("{")


def _nameless(folder: Path) -> None:
    if _silent(folder) != bytes(range(64)):
        raise ValueError("it is damaged")


def _named(folder: Path) -> None:
    if _silent(folder) != bytes(range(64)):
        raise ValueError(f"{folder}: it is damaged")


def _greedy(folder: Path) -> bytes:
    return (b"\x01" * (watching.MEMORY + 2**28))[:1]  # zeros would take none


@pytest.mark.parametrize(
    ("use", "verdict"),
    [(_silent, "silent"), (_raw, "raw"), (_nameless, "raw"), (_named, "refused"), (_greedy, "memory")],
)
def test_a_judge_finds(tmp_path: Path, use: Callable[[Path], Any], verdict: str) -> None:
    target = Target("it", _write, use)
    (tmp_path / "it").mkdir()
    _write(tmp_path / "it")
    found = {judge(tmp_path, target, 0, case, b"", watching.MEMORY).verdict for case in range(3)}
    assert verdict in found


def _hangs(folder: Path) -> None:
    time.sleep(600)


def _dies(folder: Path) -> None:
    os._exit(3)


@pytest.mark.long
@pytest.mark.parametrize(("use", "verdict"), [(_hangs, "hang"), (_dies, "crash")])
def test_the_watch_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Path], Any], verdict: str
) -> None:
    subject = [Target("it", _write, use)]
    monkeypatch.setattr(watching, "FIRST_SECONDS", 20.0)
    monkeypatch.setattr(watching, "SECONDS", 1.0)
    subjects(tmp_path, subject)
    outcome = next(watching.outcomes(tmp_path, subject, seed=0, seconds=30.0))
    assert outcome.verdict == verdict
