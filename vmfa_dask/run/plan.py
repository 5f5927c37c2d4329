"""How a run cuts its rows and its components: fixed by data and settings, never by the workers that happen to be there.

Sums depend on where blocks begin, so everything here is part of the result's identity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.run.settings import Settings

# Rows that are read, and whose moments are added to the float64 statistics, at once: as much as the statistics take,
# within these bounds. More would only take memory, less would pass more often through the statistics.
BLOCK_BYTES = 96 * 2**20
_SMALLEST_BLOCK_BYTES = 16 * 2**20
# Rows that stay in the shared cache while all their candidate components pass over them: times `search_every`, as rows
# that rest have few candidates, and parameters, which pass once per tile, weigh more (CIFAR-10, C = 800, log-joints of
# a pass: 376, 371, 385 ms in tiles of 12, 20, 80 MiB, with search_every=5 and few neighbours 115, 104, 96 ms).
TILE_BYTES = 20 * 2**20
# A group sends (H + 2)·D sums per component: with fewer rows than this per component, merging costs more than EM.
_GROUP_ROWS_PER_COMPONENT = 30
# From so many components on, groups whose rows are in the order of cells send sums of few components: their number
# follows from their work. Sums of this many groups are added in two levels (`run/passes.py`).
_MANY_COMPONENTS = 20_000
_MOST_GROUPS_OF_MANY = 64
# Work of a group, at least: a task costs some milliseconds of the scheduler, and reads its first block while nothing is
# computed. The rates of one core are rough ones.
_GROUP_SECONDS = 0.15
# Numbers of groups are multiples of this where they are larger: so they share out evenly among most numbers of workers.
_SHARED_OUT = 8
_READ_BYTES_PER_SECOND = 1e9
_FLOP_PER_SECOND = 5e10
_SECONDS_PER_CANDIDATE = 2e-8
_MOST_GROUPS = 512
# Groups that a caller may ask for: each is a task of every pass, and the scheduler needs a millisecond for it at least.
MOST_ASKED_GROUPS = 10_000
# Stored objects per group from which on groups begin with one: they differ by an eighth of their rows at most.
_FILES_PER_GROUP = 8
# Part of a block or tile that is shared out among the others.
_SMALL_REST = 0.15
# Partial results that one task sums. Eight statistics of the same block fit beside each other where one does.
FAN_IN = 8
# Float64 statistics of one component block, at most: blocks are merged and maximised side by side on several workers.
_COMPONENT_BLOCK_BYTES = 96 * 2**20


@dataclass(frozen=True)
class Plan:
    """The cuts of a run.

    Parameters
    ----------
    groups : tuple of (int, int)
        Row ranges, one partial E-step each.
    block_rows : int
        Rows of a row block, which a partial E-step reads at once.
    tile_rows : int
        Rows of a row block whose candidates are evaluated together.
    component_blocks : tuple of (int, int)
        Component ranges, one reduction and M-step each.
    """

    groups: tuple[tuple[int, int], ...]
    block_rows: int
    tile_rows: int
    component_blocks: tuple[tuple[int, int], ...]

    @property
    def n_rows(self) -> int:
        """N."""
        return self.groups[-1][1]

    def has_one_block(self, group: tuple[int, int]) -> bool:
        """Whether a group is a single row block.

        Parameters
        ----------
        group : (int, int)
            Its row range.

        Returns
        -------
        bool
        """
        return group[1] - group[0] <= self.block_rows

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Plan:
        """The plan whose fields were written as JSON.

        Parameters
        ----------
        values : dict
            The fields.

        Returns
        -------
        Plan

        Raises
        ------
        ValueError
            Naming a field of another type or range.
        """
        if set(values) != {"groups", "block_rows", "tile_rows", "component_blocks"}:
            raise ValueError(f"plan: holds {sorted(values)}, expected groups, block_rows, tile_rows, component_blocks")
        for name in ("block_rows", "tile_rows"):
            if type(values[name]) is not int or values[name] < 1:
                raise ValueError(f"plan: {name} is {values[name]!r:.60}, expected a positive whole number")
        ranges = {name: _ranges(name, values[name]) for name in ("groups", "component_blocks")}
        return cls(block_rows=values["block_rows"], tile_rows=values["tile_rows"], **ranges)


def _ranges(name: str, values: Any) -> tuple[tuple[int, int], ...]:
    """Ranges that follow each other from 0."""
    end = 0
    for value in values if isinstance(values, list) else []:
        numbers = isinstance(value, list) and len(value) == 2 and all(type(n) is int for n in value)
        if not numbers or value[0] != end or value[1] <= end:
            raise ValueError(f"plan: {name} holds {value!r:.60}, expected a range that begins at {end}")
        end = value[1]
    if end == 0:
        raise ValueError(f"plan: {name} is {values!r:.60}, expected ranges that begin at 0")
    return tuple((a, b) for a, b in values)


def _even(n: int, parts: int, unit: int) -> tuple[tuple[int, int], ...]:
    """``0:n`` in at most `parts` ranges that begin at multiples of `unit`."""
    units = -(-n // unit)
    edges = sorted({min(n, units * k // parts * unit) for k in range(parts)} | {n})
    return tuple((a, b) for a, b in itertools.pairwise(edges) if a < b)


def _about_equal(n: int, most: int) -> int:
    """Size of parts of n things, about `most` at most: no small rest is left, for which all parameters pass again."""
    parts = max(1, math.ceil(n / most - _SMALL_REST))
    return -(-n // parts)


def _near_multiple(n: int, units: Sequence[int]) -> int:
    """The multiple of the first unit that has one near n; the last unit is 1."""
    for unit in units:
        for multiple in (-(-n // unit) * unit, n - n % unit):
            if abs(multiple - n) <= _SMALL_REST * n:
                return multiple
    return n


def seconds_of_pass(n_rows: int, rows: RowSource, settings: Settings) -> float:
    """About how long one core takes to read rows and to evaluate their candidates.

    Parameters
    ----------
    n_rows : int
        How many rows.
    rows : RowSource
        Rows of the same width and dtype.
    settings : Settings
        The run.

    Returns
    -------
    float
    """
    d = n_features_of(rows)
    reading = d * rows.dtype.itemsize / _READ_BYTES_PER_SECOND
    joint = (2 * settings.n_factors + 4) * d / _FLOP_PER_SECOND + _SECONDS_PER_CANDIDATE
    return n_rows * (reading + settings.most_candidates * joint)


def statistics_bytes(settings: Settings, n_features: int) -> int:
    """Size of the moments of one component while they are summed.

    Parameters
    ----------
    settings : Settings
        The run.
    n_features : int
        D.

    Returns
    -------
    int
        Bytes.
    """
    h = settings.n_factors
    return 8 * ((h + 2) * n_features + (h + 1) ** 2 + 1)


def reorders_rows(settings: Settings) -> bool:
    """Whether a run from seeds copies its rows into the order of their cells.

    Parameters
    ----------
    settings : Settings
        Of the run. Of several attempts each has cells of its own, and rows keep their order.

    Returns
    -------
    bool
    """
    return settings.starts_from_cells and settings.n_init == 1


def make_plan(rows: RowSource, settings: Settings, n_groups: int | None = None) -> Plan:
    """Cut the rows of a source and the components of a model.

    Parameters
    ----------
    rows : RowSource
        The training rows.
    settings : Settings
        The run.
    n_groups : int, optional
        Partial E-steps per pass; by default from the size of the data and of the model. More groups feed more workers
        and cost more merging.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If `n_groups` is not positive, or too large to be scheduled.
    """
    d, c = n_features_of(rows), settings.n_components
    if n_groups is not None and n_groups < 1:
        raise ValueError(f"n_groups={n_groups}: expected a positive number of groups")
    if n_groups is not None and n_groups > MOST_ASKED_GROUPS:
        raise ValueError(
            f"n_groups={n_groups}: expected at most {MOST_ASKED_GROUPS}; each group is a task of every pass, and some "
            "per worker thread are enough"
        )
    if n_groups is None:
        by_work = int(seconds_of_pass(rows.n_rows, rows, settings) / _GROUP_SECONDS)
        most = min(_MOST_GROUPS, rows.n_rows // (_GROUP_ROWS_PER_COMPONENT * c))
        if c >= _MANY_COMPONENTS and reorders_rows(settings):
            most = max(most, _MOST_GROUPS_OF_MANY)
        n_groups = max(2, min(by_work, most))
        n_groups -= n_groups % _SHARED_OUT if n_groups > _SHARED_OUT else 0
    # Ranges begin where something is decoded, so that nothing is read twice, and where an object of the store begins if
    # groups are about equal all the same. That follows from the layout alone: a copy elsewhere gives the same bytes.
    units = [(rows.chunk_rows, _FILES_PER_GROUP * n_groups), (rows.decoded_rows, n_groups), (1, 0)]
    unit = next(unit for unit, least in units if rows.n_rows >= least * unit)
    groups = _even(rows.n_rows, n_groups, unit)
    row_bytes = d * rows.dtype.itemsize + 20 * settings.most_candidates
    block_bytes = min(BLOCK_BYTES, max(_SMALLEST_BLOCK_BYTES, c * statistics_bytes(settings, d)))
    longest = max(stop - start for start, stop in groups)
    block_rows = _about_equal(longest, max(64, block_bytes // row_bytes))
    if block_rows < longest:
        block_rows = _near_multiple(block_rows, [unit for unit, _ in units])
    tile_bytes = TILE_BYTES * settings.search_every
    tile_rows = _about_equal(block_rows, max(64, tile_bytes // (d * min(rows.dtype.itemsize, 4))))
    n_component_blocks = min(c, -(-c * statistics_bytes(settings, d) // _COMPONENT_BLOCK_BYTES))
    return Plan(groups, block_rows, tile_rows, _even(c, n_component_blocks, 1))
