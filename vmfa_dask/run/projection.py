"""Memory and scratch space that a run takes, projected from its plan before its first task. May import: em, run."""

from __future__ import annotations

from vmfa_dask.em.moments import are_sparse
from vmfa_dask.em.packed import packed_bytes
from vmfa_dask.em.tallies import most_entries
from vmfa_dask.run.plan import FAN_IN, Plan, reorders_rows, statistics_bytes
from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.run.settings import Settings

# Results of partial E-steps that come before their merging begins: it waits for its call, and for the task in work.
_LATE_RESULTS = 2
# Components that the rows of a group touch where rows are in the order of their cells, in shares of one group of them:
# assumed, not measured.
_NEAR = 4
# Component blocks whose sums a process adds to at the same time, at most.
_BLOCKS_AT_ONCE = 4
# Parameters from which on a run in one process keeps its versions in files: writing them takes little of a pass then.
FILES_FROM_BYTES = 128 * 2**20
# Component and other component, Σ of log-ratios, number of terms.
_TALLY_BYTES = 20
# Tallies of one group at once: those so far, of the next row block, their sum, and that again without gaps.
_TALLIES_OF_GROUP = 4


def levels_above_merging(n_groups: int) -> int:
    """Levels of sums to which merged results are added.

    Parameters
    ----------
    n_groups : int
        Groups of the run.

    Returns
    -------
    int
        0 where one task takes the results of all groups.
    """
    levels, n = 0, n_groups
    while n > FAN_IN:
        levels, n = levels + 1, -(-n // FAN_IN)
    return levels


def _touched_by(n_groups: int, settings: Settings, plan: Plan, bytes_of_one: int) -> int:
    """Components of which so many groups together have sums: all where they are dense."""
    c, longest = settings.n_components, max(stop - start for start, stop in plan.groups)
    one = min(c, longest * settings.truncation)
    if reorders_rows(settings):
        one = min(one, _NEAR * -(-c // len(plan.groups)))
    if not are_sparse(one, c, bytes_of_one):
        return c
    return min(c, one * n_groups)


def _parts_bytes(settings: Settings, n_features: int, plan: Plan) -> int:
    """Bytes of a partial E-step's sums, of results that wait to be merged with what they make, and of sums of these."""
    n_groups, bytes_of_one = len(plan.groups), statistics_bytes(settings, n_features)
    bytes_of_group = _touched_by(1, settings, plan, bytes_of_one) * bytes_of_one
    bytes_of_result = bytes_of_group // (2 if settings.precision == "float32" else 1)
    if n_groups <= FAN_IN:
        return bytes_of_group + (n_groups + 1) * bytes_of_result
    levels = range(1, levels_above_merging(n_groups) + 1)
    sums = [_touched_by(FAN_IN**level, settings, plan, bytes_of_one) * bytes_of_one for level in levels]
    # The sum of a component block is there once more while the next part, which is as large, is added to it.
    n_blocks = len(plan.component_blocks)
    growing = 2 * sums[-1] * min(n_blocks, _BLOCKS_AT_ONCE) // n_blocks
    return bytes_of_group + sum(sums) + growing + (FAN_IN + 1 + _LATE_RESULTS) * bytes_of_result


def projected_bytes(rows: RowSource, settings: Settings, plan: Plan) -> dict[str, int]:
    """Peak memory of a process that runs one partial E-step, by what it holds.

    Parameters
    ----------
    rows : RowSource
        The training rows.
    settings, plan : Settings, Plan
        The run.

    Returns
    -------
    dict of str to int
        Bytes. `rows` counts the row block that is evaluated, the next one, and what a decoder holds meanwhile (as much
        as is decoded together); `model` the packed form of a version and its means, and three versions of the
        parameters where these are not in files; `statistics` one group's sums, the results that are merged, their sum,
        and the sums of such sums (`run/passes.py`), in float64, of the components that rows touch where these are few;
        `search` the neighbours, and the same for divergences, of as many pairs as are kept; `seeding` what the way to
        the first parameters takes beyond that.
    """
    d = n_features_of(rows)
    item = 4 if settings.precision == "float32" else 8
    longest = max(stop - start for start, stop in plan.groups)
    block = min(plan.block_rows, longest)
    converted = 0 if rows.dtype.itemsize <= 4 else item
    held = block if rows.reads_parts else max(block, rows.decoded_rows)
    parts = {
        "rows": d * (3 * held * rows.dtype.itemsize + block * converted),
        "candidates": block * (28 * settings.most_candidates + 12 * settings.truncation),
        "model": _model_bytes(rows, settings),
        "statistics": _parts_bytes(settings, d, plan),
        "search": _search_bytes(settings, rows.n_rows, longest, len(plan.groups)),
    }
    passes = sum(parts.values()) - parts["rows"]
    return {**parts, "seeding": max(0, _seeding_bytes(rows, settings) - passes), "process": 200 * 2**20}


def _model_bytes(rows: RowSource, settings: Settings) -> int:
    """What rows are evaluated with, and the versions of the parameters where they stay in memory."""
    c, d, h = settings.n_components, n_features_of(rows), settings.n_factors
    item = 4 if settings.precision == "float32" else 8
    evaluated = packed_bytes(c, h, d, item) + c * (d * item + 8 * (h * h + 5))
    one = parameters_bytes(rows, settings)
    return evaluated + (3 * one if one < FILES_FROM_BYTES else 0)


def _search_bytes(settings: Settings, n_rows: int, longest: int, n_groups: int) -> int:
    """Two versions of the neighbours; tallied divergences of a group, of results that wait to be merged, of sums."""
    if settings.search == "exhaustive":
        return 0
    c = settings.n_components
    most = min(c, most_entries(c, settings.graph_size))

    def of(rows: int) -> int:
        # Of the components that are best for some row.
        return _TALLY_BYTES * min(rows * settings.search_size, min(c, rows) * most)

    n_waiting = min(n_groups, FAN_IN + (_LATE_RESULTS if n_groups > FAN_IN else 0))
    merged = min(n_rows, longest * min(n_groups, FAN_IN))
    # Row blocks of a group wait until they are as large as its sum; a sum is there twice while it grows.
    one_more = max((_TALLIES_OF_GROUP - 1) * of(longest), 2 * of(merged))
    neighbors = 2 * 4 * c * settings.graph_size
    return neighbors + n_waiting * of(longest) + one_more + levels_above_merging(n_groups) * of(n_rows)


def _seeding_bytes(rows: RowSource, settings: Settings) -> int:
    """What turns rows into the first means."""
    c, d = settings.n_components, n_features_of(rows)
    row = rows.dtype.itemsize
    if settings.init_params == "afkmc2":
        # Candidates as they were gathered, joined, in order, and as distances take them; then the seeds.
        return (c - 1) * settings.chain_length * (d * (3 * row + 4) + 80) + 2 * 8 * c * d
    # Rows, seeds relative to the offset, and again sorted, to be counted.
    return c * d * (row + 3 * 8)


def parameters_bytes(rows: RowSource, settings: Settings) -> int:
    """Size of one version of the parameters.

    Parameters
    ----------
    rows : RowSource
        The training rows.
    settings : Settings
        The run.

    Returns
    -------
    int
        Bytes.
    """
    item = 4 if settings.precision == "float32" else 8
    return settings.n_components * (n_features_of(rows) * (settings.n_factors + 2) * item + 8)


def stored_bytes(rows: RowSource, settings: Settings, shared: bool = False) -> int:
    """Size of what is in the storage of a run at once, at most.

    Parameters
    ----------
    rows : RowSource
        The training rows.
    settings : Settings
        The run.
    shared : bool
        Whether processes of one machine map one packed form.

    Returns
    -------
    int
        Bytes of three versions of the parameters (one that is better than later ones may be, the current and the next
        one), two of the neighbours and of the kept components, and two packed forms with means.
    """
    c, d, h = settings.n_components, n_features_of(rows), settings.n_factors
    item = 4 if settings.precision == "float32" else 8
    versions = 3 * parameters_bytes(rows, settings) + 2 * 4 * c * settings.graph_size
    packed = packed_bytes(c, h, d, item) + c * d * item if shared else 0
    return versions + 2 * packed + 2 * rows.n_rows * (4 * settings.truncation + (settings.search_every > 1))


def kept_bytes(rows: RowSource, settings: Settings) -> int:
    """Size of two versions of the state that a run keeps: the new one is written before the old one is removed.

    Parameters
    ----------
    rows : RowSource
        The training rows.
    settings : Settings
        The run.

    Returns
    -------
    int
        Bytes.
    """
    c, d, item = settings.n_components, n_features_of(rows), 4 if settings.precision == "float32" else 8
    model = c * (d * (settings.n_factors + 2) * item + 8 + 4 * settings.graph_size)
    order = 12 * rows.n_rows if reorders_rows(settings) else 0
    return 2 * (model + 4 * rows.n_rows * settings.truncation) + order
