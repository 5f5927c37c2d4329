"""Moments of those components alone that a group touches: the same parameters, to the last bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.em.runs import free_energies, make_context, train
from tests.samples import draw, make_mixture, make_start
from vmfa_dask.em import moments, statistics
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.versions import read_moments, write_moments
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.store.exchange import ExchangeFolder
from vmfa_dask.values import Moments, Statistics

C = 24
MIXTURE = make_mixture(C, 9, 3, spread=6.0)
START = make_start(make_mixture(C, 9, 3, seed=4, spread=6.0), 960, 2, 4)
# Rows of a few components lie together, as they do in the order of their cells.
DRAWN = draw(MIXTURE, 960)
ROWS = DRAWN[np.argsort(MIXTURE.means[:, 0][np.argmin(((DRAWN[:, None] - MIXTURE.means) ** 2).sum(-1), axis=1)])]
GROUPS = tuple((start, start + 80) for start in range(0, 960, 80))


def context(block_rows: int = 80, components: int = C, n_threads: int = 1, precision: str = "float64") -> RunContext:
    settings = Settings.paper(
        C, 3, truncation=2, neighborhood=4, tol=0, warmup_tol=0, max_warmup_iter=3, max_iter=3, precision=precision
    )
    made = make_context(ROWS.astype(precision), settings, n_threads=n_threads)
    blocks = tuple((k, min(k + components, C)) for k in range(0, C, components))
    made.plan = Plan(GROUPS, block_rows, 64, blocks)
    return made


def sparse_from_here(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Keep even the smallest sums sparse; the list gets the number of components of each sum."""
    lengths: list[int] = []
    total = moments.MomentSum.total

    def noted(self: moments.MomentSum, dtype: str) -> Moments:
        summed = total(self, dtype)
        lengths.append(len(summed.counts))
        assert (summed.ids is None) == (len(summed.counts) == C)
        return summed

    monkeypatch.setattr(moments, "SMALL_SUMS_BYTES", 0)
    monkeypatch.setattr(moments.MomentSum, "total", noted)
    return lengths


@pytest.mark.parametrize(
    ("block_rows", "components", "n_threads", "precision"),
    [(80, C, 1, "float64"), (30, 7, 2, "float64"), (30, 7, 1, "float32"), (80, 5, 2, "float32")],
)
def test_sparse_sums_change_no_bit(
    block_rows: int, components: int, n_threads: int, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, dense = train(context(block_rows, components, 1, precision), START)
    lengths = sparse_from_here(monkeypatch)
    monkeypatch.setattr(statistics, "_CACHED_BYTES", 0)
    monkeypatch.setattr(moments, "_ROOM", 0.2)  # so that sums grow
    sparse_state, sparse = train(context(block_rows, components, n_threads, precision), START)
    assert min(lengths) < C / 2
    np.testing.assert_array_equal(free_energies(sparse_state), free_energies(state))
    for name in ("weights", "means", "loadings", "noise_variances"):
        np.testing.assert_array_equal(getattr(sparse, name), getattr(dense, name), err_msg=name)


def part_of(ids: list[int], seed: int) -> Moments:
    rng, n = np.random.default_rng(seed), len(ids)
    arrays = (rng.normal(size=(n, *shape)) for shape in ((), (4, 4), (5, 9)))
    return Moments(*arrays, np.array(ids, np.int32))


def dense(part: Moments) -> Moments:
    assert part.ids is not None
    filled = []
    for array in (part.counts, part.factor_moments, part.moments):
        filled.append(np.zeros((C, *array.shape[1:]), array.dtype))
        filled[-1][part.ids] = array
    return Moments(*filled)


def merged(parts: list[Moments], dtype: str | None = None) -> Moments:
    given = [Statistics(0, 0, C, part, None) for part in parts]
    total = statistics.merge(given, C, 4, Cores(2), BufferPool(), dtype).moments
    assert total is not None
    return total


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_sums_of_sparse_and_dense_parts(dtype: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_CACHED_BYTES", 0)
    parts = [part_of([0, 3, 9, 10], 0), part_of([], 1), part_of([2, 3, 9, 11, 12, 13, 14, 23], 2)]
    parts.append(part_of(list(range(4, 16)), 3))
    expected = merged([dense(part) for part in parts], dtype)
    few = merged([parts[0], parts[0]], dtype)
    assert few.ids is not None
    np.testing.assert_array_equal(few.ids, parts[0].ids)
    for total in (merged(parts, dtype), merged([dense(parts[0]), *parts[1:]], dtype)):
        filled = total if total.ids is None else dense(total)
        for name in ("counts", "factor_moments", "moments"):
            np.testing.assert_array_equal(getattr(filled, name), getattr(expected, name))
        assert filled.moments.dtype == (dtype or "float64")


def test_component_blocks_of_sparse_moments(tmp_path: Path) -> None:
    whole = Moments(np.arange(3.0), np.zeros((3, 2, 2)), np.ones((3, 3, 5)), np.array([2, 5, 6], np.int32))
    part = whole.block(3, 6)
    assert part.ids is not None
    assert part.ids.tolist() == [2]
    assert part.counts.tolist() == [1.0]
    nothing = whole.block(7, 9)
    assert len(nothing.counts) == 0
    # Also through files, where a group touches no component of a block.
    storage = ExchangeFolder(str(tmp_path))
    for block, moments_of_block in enumerate((part, nothing, replace(whole, ids=None))):
        write_moments(storage, 0, 0, block, moments_of_block)
        read = read_moments(storage, 0, 0, block)
        for name, array in vars(moments_of_block).items():
            np.testing.assert_array_equal(getattr(read, name), array)
