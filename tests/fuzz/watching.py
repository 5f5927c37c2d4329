"""The watch over processes that judge: what takes too long, takes too much memory, or kills its process is a fault."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.fuzz.judging import Outcome, work
from tests.fuzz.targets import Target

# A case takes some hundredths of a second; starting a process, and compiling, come before its first one.
SECONDS, FIRST_SECONDS = 10.0, 300.0
MEMORY = 2**30


@dataclass
class _Judge:
    """A process, and the case that it is at."""

    process: BaseProcess
    pipe: Connection
    targets: Sequence[Target]
    case: int
    deadline: float


def outcomes(
    folder: Path, targets: Sequence[Target], seed: int, seconds: float, most: int | None = None, first: int = 0
) -> Iterator[Outcome]:
    """Cases one after the other until the time is over, or `most` of them are judged."""
    end, case, judged = time.monotonic() + seconds, first, 0
    judge = _start(folder, targets, seed, case)
    try:
        while time.monotonic() < end and (most is None or judged < most):
            outcome = _next(judge)
            if outcome is None:
                continue
            judged += 1
            yield outcome
            if outcome.verdict in ("hang", "crash"):
                _end(judge)
                judge = _start(folder, targets, seed, outcome.case + 1)
    finally:
        _end(judge)


def _start(folder: Path, targets: Sequence[Target], seed: int, case: int) -> _Judge:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, folder, targets, seed, case, MEMORY), daemon=True)
    process.start()
    theirs.close()
    return _Judge(process, ours, targets, case, time.monotonic() + FIRST_SECONDS)


def _end(judge: _Judge) -> None:
    judge.process.kill()
    judge.process.join()
    judge.pipe.close()


def _next(judge: _Judge) -> Outcome | None:
    """The next outcome; None when a case has only begun."""
    name = judge.targets[judge.case % len(judge.targets)].name
    if not judge.pipe.poll(max(0.0, judge.deadline - time.monotonic())):
        return Outcome(judge.case, name, None, "hang", f"longer than {SECONDS:.0f} s")
    try:
        kind, value = judge.pipe.recv()
    except EOFError:
        judge.process.join()
        return Outcome(judge.case, name, None, "crash", f"exit code {judge.process.exitcode}")
    if kind == "end":
        outcome: Outcome = value
        return outcome
    slow = judge.deadline > time.monotonic() + SECONDS  # its first cases compile
    judge.case = value
    judge.deadline = max(judge.deadline, time.monotonic() + SECONDS) if slow else time.monotonic() + SECONDS
    return None
