"""How a fit ends that is not let to its end: by signals as by Ctrl-C, and with a sentence that says what is left of it.

May import: em, cluster, service.
"""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from vmfa_dask.cluster.units import seconds_as_text
from vmfa_dask.run.executor import SchedulerLost
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.service.checkpoints import KeptRun

logger = logging.getLogger("vmfa_dask")

# What batch systems and terminals that are closed send; where a system lacks one, nothing sends it.
_NAMES = ("SIGTERM", "SIGHUP")
# What a shell reports for a process that a signal has ended.
_EXIT = 128
# Signals that come so shortly after one another are one wish. (Python drops what is raised in some moments, as while an
# object is destroyed: a later one must count again.)
_CLEANING_SECONDS = 10.0


@contextmanager
def ending_by_signals() -> Iterator[None]:
    """Let a signal that would kill this process at once raise `SystemExit` in the enclosed lines instead.

    Only in the main thread, and only where nobody has decided what the signal does. Others that follow at once do not
    disturb the lines as they clean up. What ends them before they have said what is left gets a sentence here.

    Raises
    ------
    KeyboardInterrupt
        With a sentence, and without the lines of the libraries that were interrupted.
    """
    taken: dict[int, Any] = {}
    last = -math.inf

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _CLEANING_SECONDS:
            last = now
            raise SystemExit(_EXIT + number)

    if threading.current_thread() is threading.main_thread():
        for name in _NAMES:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                taken[number] = signal.SIG_DFL
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:
        if str(error) if isinstance(error, KeyboardInterrupt) else getattr(error, "__notes__", None):
            raise  # said already
        raise_with(error, "before the first pass: no work is lost")
    finally:
        for number, before in taken.items():
            if signal.getsignal(number) is end:
                signal.signal(number, before)


def keep_latest(kept: KeptRun) -> Exception | None:
    """Keep the last complete pass of a run that broke; what broke it matters more than an error here."""
    try:
        kept.keep_latest()
    except Exception as error:
        logger.debug("%s: the last complete pass could not be kept", kept.path, exc_info=True)
        return error
    return None


def what_is_left(done: IterationRecord | None, seconds: float, kept: KeptRun | None, failure: Exception | None) -> str:
    """What a broken run leaves, and how to go on, for an error message.

    Parameters
    ----------
    done : record of the last complete pass
    seconds : that this call has worked on the run
    kept : where the run is kept, if it is
    failure : why the last complete pass could not be kept
    """
    where = f"after pass {done.iteration} ({done.phase})" if done else "before the first pass was complete"
    work = f"{seconds_as_text(seconds)} of work"
    if kept is None:
        passes = 0 if done is None else done.iteration + 1
        lost = f"{passes} pass{'es' if passes > 1 else ''} and {work} are" if passes else f"{work} are"
        return f"{where}; {lost} lost, as nothing was kept: pass run='folder' to keep runs"
    why = f"; it could not be kept ({type(failure).__name__}: {failure})" if failure is not None else ""
    if kept.n_kept is None:
        return f"{where}{why}; {work} are lost, as nothing is kept in {kept.path} yet: the same call begins anew"
    there = "its start" if kept.n_kept == 0 else f"pass {kept.n_kept - 1}"
    return f"{where}{why}; the run is kept in {kept.path} up to {there}: the same call goes on from there"


def raise_with(error: BaseException, sentence: str) -> NoReturn:
    """Raise what ended a run with a sentence that says what is left of it.

    A lost scheduler and Ctrl-C have it as their message, the latter without the lines of the libraries that were
    interrupted; other errors as a note. An exit shows nothing, so that the log has it.
    """
    if isinstance(error, KeyboardInterrupt):
        raise KeyboardInterrupt(f"the fit was interrupted {sentence}") from None
    if isinstance(error, SchedulerLost):
        raise SchedulerLost(f"{error} {sentence}") from error
    if isinstance(error, SystemExit):
        logger.warning("the fit was ended %s", sentence)
        error.add_note(sentence)
    else:
        error.add_note(f"the fit ended {sentence}")
    raise error
