"""A browser opens the page of runs while a fit is in progress, and reads the curve that it draws."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

from tests.cluster.browser import NAMES, Tab, find_browser, started_browser
from vmfa_dask import fit_distributed
from vmfa_dask.run.records import IterationRecord

pytestmark = pytest.mark.skipif(find_browser() is None, reason=f"needs a browser: {' or '.join(NAMES)}")

ROWS = np.random.default_rng(0).normal(size=(400, 6, 5)).astype(np.float32)
_SOURCES = "[...Bokeh.documents[0]._all_models.values()].filter(model => model.type == 'ColumnDataSource')"
CURVE = f"Array.from({_SOURCES}.find(source => 'free_energy' in source.data).data.free_energy)"
PICTURES = "[...Bokeh.documents[0]._all_models.values()].filter(model => /image.png/.test(model.text)).length"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[str]:
    with started_browser(tmp_path / "browser") as address:
        yield address


class PausedFit:
    """A fit in another thread that waits after some pass until it may go on."""

    def __init__(self, client: Client, after: int) -> None:
        self._after, self._go_on, self._waits = after, threading.Event(), threading.Event()
        self.records: list[IterationRecord] = []
        keywords: dict[str, Any] = {"n_components": 4, "n_factors": 2, "max_iter": 8, "tol": 0.0}
        self._thread = threading.Thread(
            target=lambda: fit_distributed(ROWS, client=client, progress=self._note, **keywords), daemon=True
        )

    def _note(self, record: IterationRecord) -> None:
        self.records.append(record)
        if len(self.records) == self._after:
            self._waits.set()
            assert self._go_on.wait(100)

    def __enter__(self) -> PausedFit:
        self._thread.start()
        assert self._waits.wait(100)
        return self

    def __exit__(self, *error: object) -> None:
        self.finish()

    def finish(self) -> None:
        self._go_on.set()
        self._thread.join(100)
        assert not self._thread.is_alive()


def test_a_browser_shows_the_curve_during_a_fit_and_after_it(in_process: Client, browser: str) -> None:
    cluster: LocalCluster = in_process.cluster
    url = f"http://127.0.0.1:{cluster.scheduler.http_server.port}/vmfa"

    async def watch(fit: PausedFit) -> None:
        async with Tab.open(browser, url) as tab:
            during = await tab.wait_for(f"{CURVE}.length == 3 && {CURVE}")
            assert during == [record.free_energy for record in fit.records]
            assert await tab.evaluate("document.querySelector('a[href=vmfa]') !== null")
            await asyncio.to_thread(fit.finish)
            assert len(fit.records) > 3
            after = await tab.wait_for(f"{CURVE}.length == {len(fit.records)} && {CURVE}")
            assert after == [record.free_energy for record in fit.records]
            assert await tab.wait_for(PICTURES) == 1
            assert await tab.evaluate("document.documentElement.scrollWidth") <= 1280
            assert tab.errors == []

    with PausedFit(in_process, after=3) as fit:
        asyncio.run(watch(fit))
