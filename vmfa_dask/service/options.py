"""How a fit works, beside what it computes: keywords that are no settings, checked by name before any work.

May import: run, store, cluster.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vmfa_dask.cluster.quantities import bytes_of, seconds_of
from vmfa_dask.run.numbers import plain
from vmfa_dask.run.plan import MOST_ASKED_GROUPS
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.store.objects import is_object_store
from vmfa_dask.store.places import locate, place_at
from vmfa_dask.store.runs import RESUME

Progress = Callable[[IterationRecord], None]

# Larger values are a slip of the keyboard, or meant in another unit.
_MOST = {"n_groups": MOST_ASKED_GROUPS, "threads": 4096, "validation_every": 2**31, "patience": 2**31}
_MOST_BYTES = 2**60
_MOST_SECONDS = 366 * 86_400.0


@dataclass(frozen=True)
class Options:
    """Checked keywords of a fit; `fit_distributed` describes them.

    Parameters
    ----------
    n_groups, threads : int or None
        Positive; None for the default.
    cache_bytes : int or None
        Bytes; None for the default.
    run : str or None
        Absolute path, or URL of an object store; None where the run is not kept.
    resume : {"auto", "never", "require"}
        Whether to resume a run.
    checkpoint_share : float
        Above 0, at most 1.
    scratch : str or None
        Absolute path; None for the default.
    worker_timeout : float
        Seconds.
    detach : bool
        Whether the driver works on the cluster.
    progress : callable or None
        Called with the record of each pass.
    validation : float, array_like or None
        Share of the rows that are held out, or other rows, which are not checked here.
    validation_every, patience : int or None
        Positive; None for the default.
    verbose : int or None
        0 shows nothing, a larger number shows how the fit goes, and None does so where a person looks.
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
    progress: Progress | None = None
    validation: Any = None
    validation_every: int | None = None
    patience: int | None = None
    verbose: int | None = None


def make_options(**given: Any) -> Options:
    """Check keywords.

    Parameters
    ----------
    **given : object
        Fields of `Options`; scalars of NumPy, texts of sizes and times, and paths of any kind are converted.

    Returns
    -------
    Options
        With defaults for fields that were left out.

    Raises
    ------
    ValueError
        Naming the argument, what was found and what is expected.
    """
    # Rows for validation stay what they are; a share may be a scalar of NumPy.
    values = {name: value if _is_rows(name, value) else plain(value) for name, value in given.items()}
    for name in ("n_groups", "threads", "validation_every", "patience"):
        if name in values:
            values[name] = _count(name, values[name])
    if "cache_bytes" in values:
        values["cache_bytes"] = _bytes("cache_bytes", values["cache_bytes"])
    if "worker_timeout" in values:
        values["worker_timeout"] = _seconds("worker_timeout", values["worker_timeout"])
    for name in ("run", "scratch"):
        if values.get(name) is not None:
            values[name] = _location(name, values[name])
    options = Options(**values)
    _require(options.resume in RESUME, "resume", options.resume, f"one of {RESUME}")
    share = options.checkpoint_share
    in_range = _is_number(share) and 0 < share <= 1
    _require(in_range, "checkpoint_share", share, "a part of the run's time, above 0 and at most 1")
    _require(isinstance(options.detach, bool), "detach", options.detach, "True or False")
    callable_or_none = options.progress is None or callable(options.progress)
    _require(callable_or_none, "progress", options.progress, "a function that takes a record")
    if _is_number(options.validation):
        _require(is_share(options.validation), "validation", options.validation, "rows, or a share in (0, 0.5]")
    for name in ("validation_every", "patience"):
        if getattr(options, name) is not None and options.validation is None:
            raise ValueError(f"{name}={getattr(options, name)!r}: there is nothing to evaluate without validation=...")
    shown = options.verbose is None or (isinstance(options.verbose, int) and options.verbose >= 0)
    _require(shown, "verbose", options.verbose, "0, 1, or None for the default")
    if options.resume == "require" and options.run is None:
        raise ValueError("resume='require': there is nothing to resume without run=...")
    return options


def is_share(validation: Any) -> bool:
    """Whether the argument `validation` is a share of the rows, not other rows.

    Parameters
    ----------
    validation : object
        The argument.

    Returns
    -------
    bool
    """
    return _is_number(validation) and 0 < validation <= 0.5


def _require(ok: bool, name: str, value: Any, expected: str) -> None:
    if not ok:
        raise ValueError(f"{name}={value!r}: expected {expected}")


def _is_rows(name: str, value: Any) -> bool:
    return name == "validation" and (hasattr(value, "__len__") or getattr(value, "ndim", 0) > 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(name: str, value: Any) -> int | None:
    ok = value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST[name])
    _require(ok, name, value, f"an integer >= 1 and <= {_MOST[name]}, or None for the default")
    return None if value is None else int(value)


def _bytes(name: str, value: Any) -> int | None:
    """Whole bytes of a number or of a text such as "1 GB"."""
    expected = "bytes >= 0 and <= 2**60, as a whole number or as a text such as '1 GB', or None for the default"
    n_bytes = value
    if isinstance(value, str):
        try:
            n_bytes = bytes_of(value)
        except ValueError as error:
            raise ValueError(f"{name}={value!r}: expected {expected} ({error})") from error
        except OverflowError:  # "1e999"
            n_bytes = math.inf
    whole = _is_number(n_bytes) and math.isfinite(n_bytes) and n_bytes == int(n_bytes) and 0 <= n_bytes <= _MOST_BYTES
    _require(value is None or whole, name, value, expected)
    return None if value is None else int(n_bytes)


def _seconds(name: str, value: Any) -> float:
    """Seconds of a number or of a text such as "2 minutes"."""
    expected = "seconds >= 0 and of a year at most, as a number or as a text such as '2 minutes'"
    seconds = value
    if isinstance(value, str):
        try:
            seconds = seconds_of(value)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{name}={value!r}: expected {expected} ({error})") from error
    _require(_is_number(seconds) and math.isfinite(seconds) and 0 <= seconds <= _MOST_SECONDS, name, value, expected)
    return float(seconds)


def _location(name: str, value: Any) -> str:
    """An absolute path, or for a run the URL of an object store."""
    kinds = "a folder or the URL of an object store" if name == "run" else "a folder"
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    _require(isinstance(path, str) and bool(path.strip()), name, value, kinds)
    located = locate(path)
    if "://" in located:
        _require(name == "run", name, value, kinds)
        if not is_object_store(located):
            place_at(located)  # names the schemes that work
    return located
