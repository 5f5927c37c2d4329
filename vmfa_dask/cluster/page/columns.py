"""Numbers by pass: columns that grow with a run and stay bounded. Standard library alone."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping

MOST_ROWS = 5000
# Of the latest passes none is left out.
_LATEST = 1000


class Columns:
    """Columns of equal length; a number that a row lacks is NaN.

    Beyond `MOST_ROWS` rows, every other one of the older rows is left out.

    Attributes
    ----------
    generation : int
        Changes whenever rows that were there before have moved, or columns have come.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._length = 0
        self._columns: dict[str, array[float]] = {}

    def __len__(self) -> int:
        return self._length

    def names(self) -> list[str]:
        """Names of the columns, in the order in which they came.

        Returns
        -------
        list of str
        """
        return list(self._columns)

    def append(self, row: Mapping[str, float]) -> None:
        """Add a row.

        Parameters
        ----------
        row : mapping of str to float
            Numbers by column; new columns are NaN in the rows before.
        """
        for name in row:
            if name not in self._columns:
                self._columns[name] = array("d", [math.nan]) * self._length
                self.generation += 1
        for name, column in self._columns.items():
            column.append(row.get(name, math.nan))
        self._length += 1
        if self._length > MOST_ROWS:
            self._thin()

    def _thin(self) -> None:
        older = self._length - _LATEST
        for name, column in self._columns.items():
            self._columns[name] = column[:older:2] + column[older:]
        self._length = len(next(iter(self._columns.values())))
        self.generation += 1

    def column(self, name: str, begin: int = 0) -> array[float]:
        """Copy of a column.

        Parameters
        ----------
        name : str
            Of the column.
        begin : int
            First row.

        Returns
        -------
        array of float
            NaN throughout where there is no such column.
        """
        column = self._columns.get(name)
        return array("d", [math.nan]) * (self._length - begin) if column is None else column[begin:]

    def last(self, name: str) -> float:
        """The latest number of a column.

        Parameters
        ----------
        name : str
            Of the column.

        Returns
        -------
        float
            NaN where there is none.
        """
        column = self._columns.get(name)
        return column[-1] if column else math.nan
