"""The free energy of rows that a mixture was not trained on, by guided search.

May import: addresses, values, runtime, run, numpy.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.run.algorithm import Training
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.row_checks import BeyondPrecision
from vmfa_dask.run.row_source import RowSource
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import Start
from vmfa_dask.run.state import DONE, RunState
from vmfa_dask.run.storage import MemoryStorage
from vmfa_dask.runtime.threads import Cores, available_cores
from vmfa_dask.values import Int32, Mixture

# Without M-steps only random candidates help a row whose neighbours are no better: with one of them and the tolerance
# of a fit, the bound of 10,000 photographs under C = 400 was 5.5 nats low, with these 1.7 (of 15,363).
_RANDOM_CANDIDATES = 4
_TOLERANCE = 1e-6
# Beyond this condition float32 sums may lose more than 1e-4 of a distance to cancellation.
_LARGEST_CONDITION = 285.0


def free_energy_by_search(mixture: Mixture, rows: RowSource, truncation: int, neighborhood: int) -> float:
    """Mean free energy after variational E-steps have found C' components per row: a fit without M-steps.

    Components are searched in the precision of the mixture, or in float64 where rows are beyond its range.

    Parameters
    ----------
    mixture : Mixture
        The model.
    rows : RowSource
        Rows of the width of the model.
    truncation, neighborhood : int
        C' and G, as in `Settings`.

    Returns
    -------
    float
        Nats per row; −inf where a density is below what float64 holds.

    Raises
    ------
    ValueError
        For rows that hold NaN or infinity, and sizes that `Settings` refuses.
    """
    settings = Settings(
        n_components=mixture.n_components,
        n_factors=mixture.n_factors,
        truncation=truncation,
        neighborhood=neighborhood,
        random_candidates=_RANDOM_CANDIDATES,
        warmup_tol=_TOLERANCE,
        max_iter=0,
        precision=mixture.means.dtype.name,
    )
    for precision in dict.fromkeys((settings.precision, "float64")):
        try:
            return _search(Start(mixture), rows, replace(settings, precision=precision))
        except BeyondPrecision:
            continue
    return -math.inf


def _search(start: Start, rows: RowSource, settings: Settings) -> float:
    """Free energy of the components that a search finds, in float64 where float32 may lack digits."""
    context = RunContext(rows, settings, make_plan(rows, settings), MemoryStorage(), Cores(available_cores()))
    components: list[Int32] = []

    def keep(state: RunState) -> None:
        if state.phase == DONE:
            kept = [addresses.Posterior(state.iteration, group) for group in range(len(context.plan.groups))]
            components.extend(context.storage.read(address)["components"] for address in kept)

    state = Training(SerialExecutor(context), on_state=keep).run(start)
    derived = context.packed(state.parameters)
    plain = derived.conditions.max() <= _LARGEST_CONDITION and not len(derived.packed_precise)
    if settings.precision == "float64" or plain:
        return state.records[-1].free_energy
    evaluation = replace(settings, precision="float64", max_warmup_iter=0)
    return _search(Start(start.mixture, components=np.concatenate(components)), rows, evaluation)
