"""What a file of rows is to those that convert and write it.

Imports `shards` for its types, and NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from data_prep.shards import Block


class FileTable(Protocol):
    """Rows of one file, as they are stored there: in one piece, or column by column where columns differ in dtype."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, features...)."""
        ...

    @property
    def dtypes(self) -> tuple[np.dtype[Any], ...]:
        """Of the one piece, or of each column."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Of each column; one empty name where there is one piece."""
        ...

    def pieces(self, start: int, stop: int) -> Iterator[Block]:
        """Rows ``start:stop``: one array (rows, features...), or one (rows,) per column."""
        ...


def refuse_choices(path: Path, **choices: Any) -> None:
    """Refuse choices that a file of this kind does not offer."""
    for name, value in choices.items():
        if value is not None:
            raise ValueError(f"{name}={value!r}: {path} has none to choose from")


def listed(names: tuple[str, ...] | list[str], most: int = 100) -> str:
    """Return names as a text that stays readable."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
