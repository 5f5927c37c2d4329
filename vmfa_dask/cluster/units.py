"""Sizes and times as Dask writes them: ``"1 GB"``, ``"30s"``. May import: dask."""

from __future__ import annotations

from dask.utils import format_time, parse_bytes, parse_timedelta


def bytes_of(text: str) -> int:
    """Bytes of a size in Dask's notation.

    Raises
    ------
    ValueError
        When it is none.
    """
    if not text.strip():
        raise ValueError("an empty text is no size")
    return parse_bytes(text)


def seconds_of(text: str) -> float:
    """Seconds of a time in Dask's notation.

    Raises
    ------
    ValueError
        When it is none.
    """
    if not text.strip():
        raise ValueError("an empty text is no time")
    try:
        return float(parse_timedelta(text, "s"))
    except KeyError as error:
        raise ValueError(error.args[0]) from error


def seconds_as_text(seconds: float) -> str:
    """A time in words, such as "12.00 s" or "3m 20s"."""
    return str(format_time(seconds))
