"""An object on one screen: as lines of text, and as a table in notebooks. May import: nothing."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def as_lines(title: str, facts: Mapping[str, str]) -> str:
    """Format facts as text.

    Parameters
    ----------
    title : str
        The first line.
    facts : mapping of str to str
        Facts by name, at least one.

    Returns
    -------
    str
        A line for each fact below the title.
    """
    width = max(map(len, facts)) + 1
    return "\n".join([title, *(f"  {name + ':':{width}} {fact}" for name, fact in facts.items())])


def as_table(title: str, facts: Mapping[str, str]) -> str:
    """Format facts as a table of HTML.

    Parameters
    ----------
    title : str
        The caption.
    facts : mapping of str to str
        Facts by name.

    Returns
    -------
    str
        A ``<table>``; texts are escaped.
    """
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>" for name, fact in facts.items())
    return f"<table><caption>{escape(title)}</caption><tbody>{rows}</tbody></table>"


def as_size(n_bytes: int) -> str:
    """Format a number of bytes.

    Parameters
    ----------
    n_bytes : int
        At least 0.

    Returns
    -------
    str
        Four digits and a decimal unit, such as "1.234 MB".
    """
    size, unit = float(n_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.4g} {unit}"
