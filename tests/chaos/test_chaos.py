"""The short version of ``make chaos``: a few kills of each kind."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import scenes
from tests.chaos.driver import VARIANT, VARIANTS, digest, make_store, options
from vmfa_dask import fit_local

# The kinds of kills have tests of their own, one each; here they come one after the other in longer runs.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_store(tmp_path_factory.mktemp("chaos") / "rows.zarr")


@pytest.fixture(scope="module", params=VARIANTS)
def expected(store: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Digest of the undisturbed run, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIANT, request.param)
        yield digest(fit_local(store, **options()).model)


def check(outcome: scenes.Outcome, kills: int) -> None:
    assert outcome.notes == []
    assert (outcome.kills, outcome.same) == (kills, outcome.fits)
    assert outcome.fits > 0


def test_killed_workers_change_nothing(store: str, expected: str) -> None:
    check(scenes.kill_workers(store, expected, random.Random(1), n_fits=1, kills_per_fit=4), 4)


def test_killed_drivers_leave_runs_that_go_on(store: str, expected: str, tmp_path: Path) -> None:
    check(scenes.kill_drivers(store, expected, random.Random(2), tmp_path, n_kills=2, kills_per_fit=2), 2)


def test_a_lost_scheduler_is_named_and_the_run_goes_on(store: str, expected: str, tmp_path: Path) -> None:
    """W12; with a short time for reconnecting, which takes half a minute by default."""
    short = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s"}
    check(scenes.kill_schedulers(store, expected, random.Random(3), tmp_path, 1, **short), 1)


def test_everything_is_killed_and_one_worker_ends_the_run(store: str, expected: str, tmp_path: Path) -> None:
    check(scenes.kill_everything(store, expected, tmp_path), 4)
