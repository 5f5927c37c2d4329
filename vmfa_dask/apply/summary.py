"""What an object says of itself on one screen: as lines, and as a table in notebooks. May import: nothing."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def as_lines(title: str, facts: Mapping[str, str]) -> str:
    """A title, and a line for each fact."""
    width = max(map(len, facts)) + 1
    return "\n".join([title, *(f"  {name + ':':{width}} {fact}" for name, fact in facts.items())])


def as_table(title: str, facts: Mapping[str, str]) -> str:
    """The same as a table of HTML."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>" for name, fact in facts.items())
    return f"<table><caption>{escape(title)}</caption><tbody>{rows}</tbody></table>"


def as_size(n_bytes: int) -> str:
    """A number of bytes as people read it."""
    size, unit = float(n_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.4g} {unit}"
