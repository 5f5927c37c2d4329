"""A fit of patches that remembers which components each of them has kept. May import: run, service, cluster, apply."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.apply.patches import PatchRows
from vmfa_dask.cluster.compilation import compile_ahead
from vmfa_dask.run.algorithm import Training
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.observer import Observer
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.state import DONE, RunState
from vmfa_dask.run.storage import MemoryStorage
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.service.options import Progress
from vmfa_dask.service.training import show
from vmfa_dask.values import Int32, Mixture


@dataclass(frozen=True)
class PatchFit:
    """A mixture of patches.

    Parameters
    ----------
    mixture : Mixture
        Its parameters, dropped components included.
    components : (N, C') int32 array
        Kept components of all patches, best first.
    free_energy : float
        Of the returned parameters, in nats per patch.
    """

    mixture: Mixture
    components: Int32
    free_energy: float


def fit_patches(
    rows: PatchRows, settings: Settings, cores: Cores, progress: Progress | None, observer: Observer
) -> PatchFit:
    """Train on all patches in this process.

    Parameters
    ----------
    rows : PatchRows
        The patches.
    settings : Settings
        What is trained, with guided search.
    cores : Cores
        Threads that compute.
    progress : callable or None
        Called with the record of each pass.
    observer : Observer
        Told of what the training does.

    Returns
    -------
    PatchFit
    """
    observer.kernels_begin()
    compile_ahead(settings, rows.dtype)
    context = RunContext(rows, settings, make_plan(rows, settings), MemoryStorage(), cores)
    kept: list[Int32] = []

    def keep(state: RunState) -> None:
        if state.phase == DONE:
            groups = (addresses.Posterior(state.iteration, group) for group in range(len(context.plan.groups)))
            kept.extend(context.storage.read(address)["components"] for address in groups)

    training = Training(SerialExecutor(context, observer), lambda record: show(record, progress), keep, observer)
    state = training.run()
    return PatchFit(context.mixture(state.parameters), np.concatenate(kept), state.records[-1].free_energy)
