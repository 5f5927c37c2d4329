"""One damaged copy after the other in a process of its own: refused by name, clean, or a fault.

The process tells before each case what it begins, so that who watches it can name what hangs or crashes.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.fuzz.mutations import Damage, damage
from tests.fuzz.targets import Target

# What no user should have to read: it tells neither the file nor what to do.
_RAW = (JSONDecodeError, UnicodeError, NotImplementedError, RecursionError)
_MIB = 2**20


@dataclass(frozen=True)
class Outcome:
    """What became of one case.

    Parameters
    ----------
    case : its number
    target : what was damaged
    damage : how
    verdict : "refused", "clean", "unseen" (a silent change of what has no checksum), or a fault: "silent", "raw",
        "memory", "hang", "crash"
    words : the error
    """

    case: int
    target: str
    damage: Damage | None
    verdict: str
    words: str = ""

    @property
    def is_fault(self) -> bool:
        """Whether it must not be."""
        return self.verdict not in ("refused", "clean", "unseen")


def subjects(folder: Path, targets: Sequence[Target]) -> None:
    """Write what is to be damaged, once."""
    for target in targets:
        path = folder / target.name
        path.mkdir()
        target.make(path)


def work(pipe: Connection, folder: Path, targets: Sequence[Target], seed: int, first: int, most_memory: int) -> None:
    """Judge cases ``first, first + 1, ...`` until the pipe is closed; targets take turns."""
    warnings.simplefilter("ignore")
    clean: dict[str, bytes] = {}
    case = first
    while True:
        target = targets[case % len(targets)]
        pipe.send(("begin", case))
        if target.name not in clean:
            clean[target.name] = _digest(target.use(_copy(folder, target, case)))
        pipe.send(("end", judge(folder, target, seed, case, clean[target.name], most_memory)))
        case += 1


def _copy(folder: Path, target: Target, case: int) -> Path:
    """A copy under a name by which errors can tell it."""
    copy = folder / "work" / f"subject-{case}"
    if copy.parent.exists():
        shutil.rmtree(copy.parent)
    shutil.copytree(folder / target.name, copy)
    return copy


def judge(folder: Path, target: Target, seed: int, case: int, clean: bytes, most_memory: int) -> Outcome:
    """Damage a copy and use it."""
    copy = _copy(folder, target, case)
    done = damage(copy, random.Random(f"{seed}-{case}"))
    _reset_peak()
    before = _memory("VmRSS")
    try:
        verdict, words = _verdict(target, done, _digest(target.use(copy)) == clean), ""
    except Exception as error:
        verdict, words = _of_error(error, copy, done), f"{type(error).__name__}: {error}"
    if _memory("VmHWM") - before > most_memory:
        verdict = "memory"
    return Outcome(case, target.name, done, verdict, words)


def _verdict(target: Target, done: Damage, same: bool) -> str:
    if same:
        return "clean"
    return "unseen" if target.may_miss(done) else "silent"


def _of_error(error: Exception, copy: Path, done: Damage) -> str:
    words = str(error)
    names = copy.name in words or Path(done.file).name in words or done.file in words
    known = isinstance(error, ValueError | OSError | KeyError) and not isinstance(error, _RAW)
    return "refused" if known and names and "\n" not in words else "raw"


def _digest(value: Any) -> bytes:
    return hashlib.sha256(repr(value).encode()).digest()


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _memory(field: str) -> int:
    """Bytes, from what Linux tells of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")
