"""What a call tells its user: how much of the log it shows, and whether errors come with a traceback.

May import: the standard library.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LOGGER = logging.getLogger("vmfa_dask")
# Of the log, by the number of -v minus the number of -q.
_LEVELS = {-2: logging.ERROR, -1: logging.WARNING, 0: logging.INFO, 1: logging.DEBUG}


class Session:
    """The options that all commands share; the only place that decides what a call shows of its progress.

    Attributes
    ----------
    verbosity : int
        0 shows progress (records of a fit are logged as INFO), -1 warnings and errors, -2 errors alone, 1 details too.
    traceback : bool
        Whether an error shows where it was raised.
    """

    def __init__(self) -> None:
        self.verbosity, self.traceback = 0, False

    def change_verbosity(self, steps: int) -> None:
        """Show more or less from now on.

        Parameters
        ----------
        steps : int
            Added to `verbosity`.
        """
        self.verbosity += steps
        _LOGGER.setLevel(_LEVELS[min(max(self.verbosity, min(_LEVELS)), max(_LEVELS))])

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Send the log of the package, and warnings, to the error stream during the enclosed lines.

        Yields
        ------
        None
        """
        handler, level = logging.StreamHandler(sys.stderr), _LOGGER.level
        handler.setFormatter(_Lines())
        _LOGGER.addHandler(handler)
        self.change_verbosity(0)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _log_warning
                yield
        finally:
            _LOGGER.removeHandler(handler)
            _LOGGER.setLevel(level)


class _Lines(logging.Formatter):
    """Messages as they are, with a word before those that need attention."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {text}"


def _log_warning(message: Warning | str, *details: Any, **more: Any) -> None:
    _LOGGER.warning("%s", " ".join(str(message).split()))
