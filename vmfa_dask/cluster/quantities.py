"""Sizes and times in Dask's notation, such as ``"1 GB"`` and ``"30s"``. May import: dask."""

from __future__ import annotations

from dask.utils import format_time, parse_bytes, parse_timedelta


def bytes_of(text: str) -> int:
    """Parse a size.

    Parameters
    ----------
    text : str
        Such as "1 GB" or "256 MiB"; a bare number counts bytes.

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    ValueError
        When the text is no size.
    OverflowError
        When it is beyond the range of float64.
    """
    if not text.strip():
        raise ValueError("an empty text is no size")
    return parse_bytes(text)


def seconds_of(text: str) -> float:
    """Parse a time.

    Parameters
    ----------
    text : str
        Such as "30s" or "2 minutes"; a bare number counts seconds.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    ValueError
        When the text is no time.
    OverflowError
        When it is beyond the range of float64.
    """
    if not text.strip():
        raise ValueError("an empty text is no time")
    try:
        return float(parse_timedelta(text, "s"))
    except KeyError as error:
        raise ValueError(error.args[0]) from error


def seconds_as_text(seconds: float) -> str:
    """Write a time in words.

    Parameters
    ----------
    seconds : float
        At least 0.

    Returns
    -------
    str
        Such as "12.00 s" or "3m 20s".
    """
    return str(format_time(seconds))
