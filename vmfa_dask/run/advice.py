"""What to change about a run that does not fit a worker: its largest part is named, with numbers that would fit.

May import: em.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from vmfa_dask.run.plan import MOST_ASKED_GROUPS, Plan, make_plan
from vmfa_dask.run.projection import projected_bytes, stored_bytes
from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.run.settings import Settings

_MIB = 2**20


class Advice:
    """Advice for one run.

    Parameters
    ----------
    rows, settings, plan : the run
    n_groups : as the caller gave it
    """

    def __init__(self, rows: RowSource, settings: Settings, plan: Plan, n_groups: int | None = None) -> None:
        self._rows, self._settings, self._plan, self._n_groups = rows, settings, plan, n_groups

    def __call__(self, usable: int) -> str:
        """A sentence without its full stop.

        Parameters
        ----------
        usable : bytes that a run may take in a worker
        """
        parts = projected_bytes(self._rows, self._settings, self._plan)
        causes = {
            "rows": (parts["rows"], self._of_rows),
            "candidates": (parts["candidates"] + parts["search"], self._of_candidates),
            "model": (parts["model"] + parts["statistics"] + parts["seeding"], self._of_model),
        }
        largest = max(causes, key=lambda name: causes[name][0])
        cause, ways = causes[largest][1](usable)
        text = f"the largest part is {cause}"
        if not ways:
            return text
        scratch = stored_bytes(self._rows, self._settings, shared=True)
        space = f"; beside memory, the run takes {scratch / _MIB:.0f} MiB of scratch" if largest == "model" else ""
        return f"{text}; {' or '.join(ways)} would fit{space}"

    def _of_rows(self, usable: int) -> tuple[str, list[str]]:
        rows, longest = self._rows, max(stop - start for start, stop in self._plan.groups)
        row_bytes = n_features_of(rows) * rows.dtype.itemsize
        block = min(self._plan.block_rows, longest)
        if rows.reads_parts or rows.decoded_rows <= block:
            cause = f"rows: blocks of {block} rows take {block * row_bytes / _MIB:.0f} MiB each, and three are held"
            return cause, self._smaller_blocks(usable)
        cause = (
            f"rows: a chunk of the store holds {rows.decoded_rows} rows and takes "
            f"{rows.decoded_rows * row_bytes / _MIB:.0f} MiB decoded, of which three are held"
        )
        n = _largest(lambda size: self._fits(usable, rows=_rechunked(rows, size)), 1, rows.decoded_rows - 1)
        size = n and n * row_bytes / _MIB
        return cause, [f"the data rewritten in chunks of at most {n} rows ({size:.1f} MiB)"] if n else []

    def _of_candidates(self, usable: int) -> tuple[str, list[str]]:
        settings, ways = self._settings, []
        cause = f"candidates: a row is compared with up to {settings.most_candidates} components at once"
        if settings.search == "guided" and settings.init_params != "k-means+fa":
            size = settings.graph_size // 2
            while size >= 1 and not self._fits(usable, replace(settings, neighborhood=size)):
                size //= 2  # with fewer candidates blocks have more rows: not every smaller number takes less
            ways += [f"neighborhood={size}"] if size else []
        ways += self._smaller_blocks(usable)
        c = None if ways else self._most_components(usable)
        return cause, [f"n_components={c}"] if c else ways

    def _of_model(self, usable: int) -> tuple[str, list[str]]:
        settings, ways = self._settings, []
        h = settings.n_factors
        cause = (
            f"parameters and sums of n_components={settings.n_components} with {h} factors and "
            f"{n_features_of(self._rows)} features in {settings.precision}"
        )
        if settings.precision == "float64" and self._fits(usable, replace(settings, precision="float32")):
            ways.append("precision='float32'")
        c = self._most_components(usable)
        ways += [f"n_components={c}"] if c else []
        if h > 0 and self._fits(usable, replace(settings, n_factors=0)):
            fewer = _largest(lambda n: self._fits(usable, replace(settings, n_factors=n)), 1, h - 1)
            ways.append(f"n_factors={fewer or 0}")
        return cause, ways

    def _most_components(self, usable: int) -> int | None:
        """The largest C that fits."""
        settings = self._settings
        return _largest(lambda n: self._fits(usable, _of_components(settings, n)), 1, settings.n_components - 1)

    def _smaller_blocks(self, usable: int) -> list[str]:
        """More groups have fewer rows each, and so smaller blocks."""
        n = 2 * len(self._plan.groups)
        while n <= min(self._rows.n_rows, MOST_ASKED_GROUPS):
            if self._fits(usable, n_groups=n):
                return [f"n_groups={n}"]
            n *= 2
        return []

    def _fits(
        self,
        usable: int,
        settings: Settings | None = None,
        rows: RowSource | None = None,
        n_groups: int | None = None,
    ) -> bool:
        settings, rows = settings or self._settings, rows or self._rows
        plan = make_plan(rows, settings, n_groups or self._n_groups)
        return sum(projected_bytes(rows, settings, plan).values()) <= usable


def _of_components(settings: Settings, n: int) -> Settings:
    """The same run with fewer components, and no more kept per row."""
    kept = min(settings.truncation, n)
    sizes = settings.neighborhood
    return replace(
        settings,
        n_components=n,
        truncation=kept,
        neighborhood=sizes[:kept] if isinstance(sizes, tuple) else sizes,
    )


def _rechunked(rows: RowSource, n: int) -> Any:
    """What a plan needs to know of the same rows in chunks of n rows."""
    return SimpleNamespace(
        n_rows=rows.n_rows,
        feature_shape=rows.feature_shape,
        dtype=rows.dtype,
        chunk_rows=n,
        decoded_rows=n,
        reads_parts=False,
    )


def _largest(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The largest number that fits, where all below one that fits do; None where not even the lowest does."""
    if high < low or not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
