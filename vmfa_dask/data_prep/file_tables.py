"""The interface of a file of rows, and helpers of its implementations.

Imports `tables` for its types, and NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from vmfa_dask.data_prep.tables import Block


class FileTable(Protocol):
    """Rows of one file with the dtypes of the file: one array, or an array per column if it has named columns."""

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
        """The dtype of the array, or of each column."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns; a single empty name if the file holds one array."""
        ...

    def pieces(self, start: int, stop: int) -> Iterator[Block]:
        """Read rows.

        Parameters
        ----------
        start, stop : int
            Range of rows.

        Yields
        ------
        array
            One of shape (rows, features...), or one of shape (rows,) per column.

        Raises
        ------
        ValueError
            Naming the file, if it is damaged or a value is missing.
        """
        ...


def refuse_choices(path: Path, **choices: Any) -> None:
    """Refuse options that do not apply to a file of this format.

    Parameters
    ----------
    path : path
        The file.
    **choices
        Options by name; those that are None were not given.

    Raises
    ------
    ValueError
        Naming the first that was given.
    """
    for name, value in choices.items():
        if value is not None:
            raise ValueError(f"{name}={value!r}: {path} has none to choose from")


def listed(names: tuple[str, ...] | list[str], most: int = 100) -> str:
    """Join names with commas, and count those beyond a limit.

    Parameters
    ----------
    names : sequence of str
        Any number of names.
    most : int
        How many are written out.

    Returns
    -------
    str
        Such as ``"a, b and 5 more"``.
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
