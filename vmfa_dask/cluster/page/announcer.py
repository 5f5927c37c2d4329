"""The driver's part of the page: what it tells the scheduler of a run beside the records.

May import: run, store, cluster, distributed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from distributed import Client

from vmfa_dask.cluster.page.pictures import MOST_PICTURES, make_pictures, picture_axes
from vmfa_dask.cluster.page.topics import HANDLER
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.state import DONE, RunState
from vmfa_dask.run.storage import MemoryStorage, Storage
from vmfa_dask.run.versions import read_heaviest
from vmfa_dask.store.exchange import ExchangeFolder

logger = logging.getLogger(__name__)

# Pictures are made rarely enough that they take this share of a run's time at most.
_SHARE = 0.003
_PASSES_BETWEEN = 3
_SECONDS_BETWEEN = 2.0
# Of models in object stores, which are read as a whole.
_MOST_BYTES_READ = 64 << 20
_MOST_EARLIER = 1000
_TIMEOUT = 2.0


class Announcer:
    """Tells the page how a run begins and ends, and shows its heaviest components.

    Nothing of this may disturb the run: what goes wrong is logged once, and then nothing is told any more.

    Parameters
    ----------
    client : distributed.Client
        Of the driver.
    run : str
        Name of the run on its cluster.
    settings, plan : Settings, Plan
        Of the run.
    storage : Storage
        Its versions.
    label : str
        What users call the run.
    feature_shape : tuple of int
        Shape of one row.
    kept_for : callable
        Seconds since the run was kept last; None where it is not kept.
    """

    def __init__(
        self,
        client: Client,
        run: str,
        settings: Settings,
        plan: Plan,
        storage: Storage,
        label: str,
        feature_shape: tuple[int, ...],
        kept_for: Callable[[], float | None],
    ) -> None:
        self._client, self._run, self._settings, self._plan = client, run, settings, plan
        self._storage, self._label, self._shape, self._kept_for = storage, label, feature_shape, kept_for
        self._state: RunState | None = None
        self._told_earlier, self._works = False, True
        self._pictured, self._made, self._cost = -_PASSES_BETWEEN, 0.0, 0.0

    def silence(self) -> None:
        """Tell nothing: the scheduler has no page."""
        self._works = False

    def begin(self) -> None:
        """Tell that the run begins, and what it is."""
        settings = self._settings
        self._tell(
            "begin",
            label=self._label,
            client=self._client.id,
            n_rows=self._plan.n_rows,
            n_components=settings.n_components,
            n_factors=settings.n_factors,
            tol=settings.tol,
            warmup_tol=settings.warmup_tol,
            standardize=settings.standardize,
            feature_shape=list(self._shape),
        )

    def note_state(self, state: RunState) -> None:
        """Note where the run stands; passes of a run that was resumed are told.

        Parameters
        ----------
        state : RunState
            After a pass.
        """
        self._state = state
        if not self._told_earlier:
            self._told_earlier = True
            records = state.records[:-1]
            if records:
                step = -(-len(records) // _MOST_EARLIER)
                self._tell("earlier", records=[record.as_dict() for record in records[::step]])

    def extra(self) -> dict[str, Any]:
        """What the event of a record has beside the record.

        Returns
        -------
        dict
        """
        return {"checkpoint_age": self._kept_for()}

    def show_components(self) -> None:
        """Send pictures of the heaviest components, if rows are pictures and it is time for it."""
        state = self._state
        if state is None or not self._works or picture_axes(self._shape) is None:
            return
        now, n_passes = time.monotonic(), len(state.records)
        due = n_passes - self._pictured >= _PASSES_BETWEEN
        due = due and now - self._made >= max(_SECONDS_BETWEEN, self._cost / _SHARE)
        if not (due or state.phase == DONE) or not self._is_cheap():
            return
        with self._quietly():
            components, weights, pictures = self._pictures(state.parameters)
            self._tell(
                "pictures",
                wait=state.phase == DONE,  # else the next pass need not
                iteration=n_passes - 1,
                components=components,
                weights=weights,
                shape=list(pictures.shape),
                pixels=pictures.tobytes(),
            )
        self._made = time.monotonic()
        self._pictured, self._cost = n_passes, self._made - now

    def _is_cheap(self) -> bool:
        n_bytes = 4 * self._settings.n_components * int(np.prod(self._shape))
        return n_bytes <= _MOST_BYTES_READ or isinstance(self._storage, MemoryStorage | ExchangeFolder)

    def _pictures(self, version: int) -> tuple[list[int], list[float], Any]:
        """Numbers, weights and pictures of the heaviest components of a version."""
        components, weights, means = read_heaviest(self._storage, self._plan, version, MOST_PICTURES)
        return components.tolist(), weights.tolist(), make_pictures(means, self._shape)

    def end(self, error: BaseException | None) -> None:
        """Tell how the run ended.

        Parameters
        ----------
        error : BaseException or None
            What has ended it; None where it has a result.
        """
        state = self._state
        if error is not None:
            how = _ENDS.get(type(error).__name__, "failed")
        elif state is None:
            how = "ended"
        else:
            how = "converged" if state.converged else "free energy fell" if state.fell else "ended at max_iter"
        self._tell("end", state=how, reason=_words_of(error))

    def _tell(self, kind: str, wait: bool = True, **values: Any) -> None:
        client, event = self._client, {"run": self._run, "kind": kind, **values}
        scheduler, loop = client.scheduler, client.loop
        if not self._works or client.status != "running" or scheduler is None or loop is None:
            return

        async def send() -> None:
            with self._quietly():
                await getattr(scheduler, HANDLER)(event=event)

        with self._quietly():
            if wait:
                client.sync(send, callback_timeout=_TIMEOUT)
            else:
                loop.add_callback(send)

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            logger.info("the page of runs (/vmfa) hears no more of run %s", self._run, exc_info=True)
            self._works = False


def _words_of(error: BaseException | None) -> str:
    """Type and first words of an error."""
    if error is None:
        return ""
    try:
        return f"{type(error).__name__}: {error}"[:200]
    except Exception:  # of the error's own making
        return type(error).__name__


# How a run ended, by the name of the error's class.
_ENDS = {"KeyboardInterrupt": "interrupted", "SystemExit": "interrupted", "RunStopped": "stopped"}
