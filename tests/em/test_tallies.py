"""Sums of tallies: merged seldom or often, on any number of threads, and bounded, without a bit of difference."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.em.runs import make_context
from tests.samples import draw, make_mixture, make_start
from vmfa_dask.em import tallies
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import write_given_start
from vmfa_dask.run.step import Step
from vmfa_dask.run.tasks.e_step import run_e_step
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Divergences

SETTINGS = Settings.paper(8, 3, truncation=3, neighborhood=4, precision="float64")
ROWS = draw(make_mixture(8, 9, 3, spread=2.0), 700)


def tallied(n_threads: int) -> Divergences:
    """Tallies of one group of ten row blocks."""
    context = make_context(ROWS, SETTINGS)
    context.plan, context.cores = Plan(((0, 700),), 70, 70, ((0, 8),)), Cores(n_threads)
    mixture = make_mixture(8, 9, 3, seed=4, spread=2.0)
    write_given_start(context.storage, SETTINGS, context.plan, make_start(mixture, 700, 3, 4))
    divergences = run_e_step(context, 0, Step(0, 0, 0, search=True, update=False)).statistics[0].divergences
    assert divergences is not None
    return divergences


def assert_same(a: Divergences, b: Divergences) -> None:
    for name in ("indptr", "ids", "sums", "counts"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_merging_after_every_block_changes_no_bit(n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seldom = tallied(1)
    monkeypatch.setattr(tallies, "_WAITING", 0)
    monkeypatch.setattr(tallies, "_ENTRIES_PER_RANGE", 3)
    assert_same(tallied(n_threads), seldom)


def test_bounded_sums_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "most_entries", lambda *sizes: 2)
    monkeypatch.setattr(tallies, "_WAITING", 20)
    one = tallied(1)
    assert np.diff(one.indptr).max() == 2
    monkeypatch.setattr(tallies, "_ENTRIES_PER_RANGE", 3)
    assert_same(tallied(2), one)


def test_what_is_kept_of_a_sum() -> None:
    parts = []
    rng = np.random.default_rng(3)
    for _ in range(3):
        ids = np.concatenate([rng.permutation(300)[:n] for n in (120, 0, 80)]).astype(np.int32)
        parts.append(Divergences(np.array([0, 120, 120, 200]), ids, rng.exponential(size=200), rng.integers(1, 4, 200)))
    total = tallies.add_divergences(parts, 300, 7, Cores(2), BufferPool())
    for c, (start, stop) in enumerate(itertools.pairwise(total.indptr.tolist())):
        sums, counts = np.zeros(300), np.zeros(300, np.int64)
        for part in parts:
            entries = slice(*part.indptr[c : c + 2])
            sums[part.ids[entries]] += part.sums[entries]
            counts[part.ids[entries]] += part.counts[entries]
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)
        kept = np.sort(np.argsort(means)[: 0 if c == 1 else 7])
        np.testing.assert_array_equal(total.ids[start:stop], kept)
        np.testing.assert_array_equal(total.sums[start:stop], sums[kept])
        np.testing.assert_array_equal(total.counts[start:stop], counts[kept])


def test_small_models_keep_every_pair() -> None:
    assert tallies.most_entries(1448, 15) >= 1448
    assert tallies.most_entries(500_000, 15) == 60
