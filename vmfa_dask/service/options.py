"""How a fit works, beside what it computes: arguments that are no settings, checked by name before any work.

May import: em, store, cluster.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vmfa_dask.cluster.units import bytes_of, seconds_of
from vmfa_dask.run.numbers import plain
from vmfa_dask.run.plan import MOST_ASKED_GROUPS
from vmfa_dask.store.objects import is_object_store
from vmfa_dask.store.places import locate, place_at
from vmfa_dask.store.runs import RESUME

# What nobody means: a slip of the keyboard, or another unit.
_MOST = {"n_groups": MOST_ASKED_GROUPS, "threads": 4096}
_MOST_BYTES = 2**60
_MOST_SECONDS = 366 * 86_400.0


@dataclass(frozen=True)
class Options:
    """Arguments of a fit as its parts take them; their meaning is that of `fit_distributed`.

    Parameters
    ----------
    n_groups, threads : positive and no more than `_MOST`, or None for the default
    cache_bytes : bytes, or None for the default
    run, scratch : absolute paths, or the URL of an object store (`run`); None without one
    resume : one of `store.runs.RESUME`
    checkpoint_share : above 0, at most 1
    worker_timeout : seconds
    detach : whether the driver works on the cluster
    progress : called with records, or None
    """

    n_groups: int | None = None
    threads: int | None = None
    cache_bytes: int | None = None
    run: str | None = None
    resume: str = "auto"
    checkpoint_share: float = 0.015
    scratch: str | None = None
    worker_timeout: float = 60.0
    detach: bool = False
    progress: Callable[..., None] | None = None


def make_options(**given: Any) -> Options:
    """Options from keyword arguments: scalars of NumPy, texts of sizes and times, and paths of any kind are taken.

    Raises
    ------
    ValueError
        Naming the argument, what was found and what is expected.
    """
    known = {name: plain(value) for name, value in given.items()}
    for name in ("n_groups", "threads"):
        if name in known:
            known[name] = _count(name, known[name])
    if "cache_bytes" in known:
        known["cache_bytes"] = _bytes("cache_bytes", known["cache_bytes"])
    if "worker_timeout" in known:
        known["worker_timeout"] = _seconds("worker_timeout", known["worker_timeout"])
    for name in ("run", "scratch"):
        if known.get(name) is not None:
            known[name] = _place(name, known[name])
    options = Options(**known)
    _require(options.resume in RESUME, "resume", options.resume, f"one of {RESUME}")
    share = options.checkpoint_share
    part = _is_number(share) and 0 < share <= 1
    _require(part, "checkpoint_share", share, "a part of the run's time, above 0 and at most 1")
    _require(isinstance(options.detach, bool), "detach", options.detach, "True or False")
    callable_or_none = options.progress is None or callable(options.progress)
    _require(callable_or_none, "progress", options.progress, "a function that takes a record")
    if options.resume == "require" and options.run is None:
        raise ValueError("resume='require': there is nothing to resume without run=...")
    return options


def _require(ok: bool, name: str, value: Any, expected: str) -> None:
    if not ok:
        raise ValueError(f"{name}={value!r}: expected {expected}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(name: str, value: Any) -> int | None:
    ok = value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST[name])
    _require(ok, name, value, f"an integer >= 1 and <= {_MOST[name]}, or None for the default")
    return None if value is None else int(value)


def _bytes(name: str, value: Any) -> int | None:
    """Whole bytes of a number or of a text such as "1 GB"."""
    expected = "bytes >= 0 and <= 2**60, as a whole number or as a text such as '1 GB', or None for the default"
    found = value
    if isinstance(value, str):
        try:
            found = bytes_of(value)
        except ValueError as error:
            raise ValueError(f"{name}={value!r}: expected {expected} ({error})") from error
        except OverflowError:  # "1e999"
            found = math.inf
    whole = _is_number(found) and math.isfinite(found) and found == int(found) and 0 <= found <= _MOST_BYTES
    _require(value is None or whole, name, value, expected)
    return None if value is None else int(found)


def _seconds(name: str, value: Any) -> float:
    """Seconds of a number or of a text such as "2 minutes"."""
    expected = "seconds >= 0 and of a year at most, as a number or as a text such as '2 minutes'"
    found = value
    if isinstance(value, str):
        try:
            found = seconds_of(value)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{name}={value!r}: expected {expected} ({error})") from error
    _require(_is_number(found) and math.isfinite(found) and 0 <= found <= _MOST_SECONDS, name, value, expected)
    return float(found)


def _place(name: str, value: Any) -> str:
    """An absolute path, or the URL of an object store where a run may lie in one."""
    kinds = "a folder or the URL of an object store" if name == "run" else "a folder"
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    _require(isinstance(path, str) and bool(path.strip()), name, value, kinds)
    located = locate(path)
    if "://" in located:
        _require(name == "run", name, value, kinds)
        if not is_object_store(located):
            place_at(located)  # names the schemes that work
    return located
