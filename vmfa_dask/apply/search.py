"""The free energy of rows that a mixture was not trained on, by guided search. May import: values, kernels, em."""

from __future__ import annotations

from vmfa_dask.em.algorithm import Training
from vmfa_dask.em.context import RunContext
from vmfa_dask.em.executor import SerialExecutor
from vmfa_dask.em.plan import make_plan
from vmfa_dask.em.rows import RowSource
from vmfa_dask.em.settings import Settings
from vmfa_dask.em.start import Start
from vmfa_dask.em.storage import MemoryStorage
from vmfa_dask.em.threads import Cores, available_cores
from vmfa_dask.values import Mixture

# Without M-steps only random candidates lead rows on that no neighbour leads: with one of them and the tolerance of a
# fit, the bound of 10,000 photographs under C = 400 was 5.5 nats low, with these 1.7 (of 15,363).
_RANDOM_CANDIDATES = 4
_TOLERANCE = 1e-6


def free_energy_by_search(mixture: Mixture, rows: RowSource, truncation: int, neighborhood: int) -> float:
    """Mean free energy per row after variational E-steps have found C' components for each: a fit without M-steps."""
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
    context = RunContext(rows, settings, make_plan(rows, settings), MemoryStorage(), Cores(available_cores()))
    return Training(SerialExecutor(context)).run(Start(mixture)).records[-1].free_energy
