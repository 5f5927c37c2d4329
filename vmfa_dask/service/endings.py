"""How an interrupted fit ends: signals act like Ctrl-C, and a sentence says what is left of the run.

May import: run, cluster, service.
"""

from __future__ import annotations

import logging
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from vmfa_dask.cluster.quantities import seconds_as_text
from vmfa_dask.run.executor import SchedulerLost
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.service.checkpoints import KeptRun

logger = logging.getLogger("vmfa_dask")

# Sent by batch systems, and by terminals that close; a system that lacks one sends none.
_NAMES = ("SIGTERM", "SIGHUP")
# Added to the number of a signal in the exit code of a process that it has ended.
_EXIT = 128
# Signals that follow one another faster than this count once.
_CLEANING_SECONDS = 10.0
# Until a signal comes again whose exception Python has dropped, as it was raised while an object was destroyed.
_AGAIN_SECONDS = 0.01


@contextmanager
def ending_by_signals(
    work: str = "the fit", sentence: str = "before the first pass: no work is lost"
) -> Iterator[None]:
    """Let a signal that would kill this process at once raise `SystemExit` in the enclosed lines instead.

    Only in the main thread, and only for signals without a handler. Signals that follow at once do not disturb the
    lines as they clean up. Python drops exceptions that are raised in destructors and the like: there, signals and
    Ctrl-C come again. An interrupt that does not say yet what is left of the run gets a sentence here.

    Parameters
    ----------
    work : str
        What is interrupted, for that sentence.
    sentence : str
        What is left of it, where the lines do not say so.

    Raises
    ------
    KeyboardInterrupt
        With a sentence, and without the traceback of the libraries that were interrupted.
    SystemExit
        For a signal; the log has the sentence.
    """
    taken: dict[int, Any] = {}
    last = -math.inf

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _CLEANING_SECONDS:
            last = now
            raise SystemExit(_EXIT + number)

    def come_again(dropped: Any) -> None:
        nonlocal last
        error = dropped.exc_value
        if isinstance(error, KeyboardInterrupt):
            _send_soon(signal.SIGINT)
        elif isinstance(error, SystemExit) and any(error.code == _EXIT + number for number in taken):
            last = -math.inf
            _send_soon(int(error.code) - _EXIT)  # type: ignore[arg-type]
        else:
            hook(dropped)

    hook = sys.unraisablehook
    if threading.current_thread() is threading.main_thread():
        sys.unraisablehook = come_again
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
        raise_with(error, sentence, work)
    finally:
        if sys.unraisablehook is come_again:
            sys.unraisablehook = hook
        for number, before in taken.items():
            if signal.getsignal(number) is end:
                signal.signal(number, before)


def _send_soon(number: int) -> None:
    """Send a signal to the main thread once it has left the destructor in which it is."""
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        timer = threading.Timer(_AGAIN_SECONDS, signal.pthread_kill, (main, number))
    else:
        timer = threading.Timer(_AGAIN_SECONDS, signal.raise_signal, (number,))
    timer.daemon = True
    timer.start()


def keep_latest(kept: KeptRun) -> Exception | None:
    """Keep the last complete pass of a broken run; the cause of the break matters more than an error here.

    Parameters
    ----------
    kept : KeptRun
        The run.

    Returns
    -------
    Exception or None
        Why the pass could not be kept.
    """
    try:
        kept.keep_latest()
    except Exception as error:
        logger.debug("%s: the last complete pass could not be kept", kept.path, exc_info=True)
        return error
    return None


def what_is_left(done: IterationRecord | None, seconds: float, kept: KeptRun | None, failure: Exception | None) -> str:
    """Say what a broken run leaves, and how to resume it.

    Parameters
    ----------
    done : IterationRecord or None
        Of the last complete pass.
    seconds : float
        How long this call has worked on the run.
    kept : KeptRun or None
        Where the run is kept, if it is.
    failure : Exception or None
        Why the last complete pass could not be kept.

    Returns
    -------
    str
        The end of a sentence.
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
    last = "its start" if kept.n_kept == 0 else f"pass {kept.n_kept - 1}"
    return f"{where}{why}; the run is kept in {kept.path} up to {last}: the same call goes on from there"


def raise_with(error: BaseException, sentence: str, work: str = "the fit") -> NoReturn:
    """Raise the error that ended a run, with a sentence that says what is left of the run.

    A lost scheduler and Ctrl-C have it in their message, the latter without the traceback of the interrupted libraries;
    other errors as a note. An exit shows no message, so that the sentence goes to the log as well.

    Parameters
    ----------
    error : BaseException
        What ended the run.
    sentence : str
        As `what_is_left` gives it.
    work : str
        What was interrupted.

    Raises
    ------
    BaseException
        The error, or one of its kind.
    """
    if isinstance(error, KeyboardInterrupt):
        raise KeyboardInterrupt(f"{work} was interrupted {sentence}") from None
    if isinstance(error, SchedulerLost):
        raise SchedulerLost(f"{error} {sentence}") from error
    if isinstance(error, SystemExit):
        logger.warning("%s was ended %s", work, sentence)
        error.add_note(sentence)
    else:
        error.add_note(f"{work} ended {sentence}")
    raise error
