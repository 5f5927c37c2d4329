"""Fits of several sizes side by side, judged by rows that none of them has seen. May import: apply, service, numpy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.service.fit import fit_distributed, fit_local


@dataclass(frozen=True)
class HeldOutRecord:
    """One fit of a held-out curve.

    Parameters
    ----------
    n_components, n_factors : int
        C and H that were asked for.
    n_alive : int
        Components that did not lose all their rows.
    n_parameters : int
        Free parameters of the fitted model.
    free_energy : float
        Of the training rows, in nats per row.
    score : float
        Mean log-density of the held-out rows, in nats per row; larger is better.
    n_passes : int
        Passes over the training rows.
    converged : bool
        Whether the tolerance ended the training.
    seconds : float
        Wall-clock time of the fit.
    """

    n_components: int
    n_factors: int
    n_alive: int
    n_parameters: int
    free_energy: float
    score: float
    n_passes: int
    converged: bool
    seconds: float


def held_out_curve(
    train: Any,
    test: Any,
    *,
    n_components: Iterable[int],
    n_factors: Iterable[int] = (5,),
    client: Any = None,
    report: Callable[[HeldOutRecord, MixtureModel], None] | None = None,
    **keywords: Any,
) -> list[HeldOutRecord]:
    """Fit models of several sizes and score rows that were held out.

    The score rises with the size until the model fits what is peculiar to the training rows. Beyond the size where it
    stops to rise, components and factors only cost time.

    Parameters
    ----------
    train : array_like of shape (N, ...)
        Rows to train on, as in `fit_distributed`.
    test : array_like of shape (n, ...)
        Rows to score, in any form that `MixtureModel.score` takes without further arguments.
    n_components : iterable of int
        Values of C.
    n_factors : iterable of int
        Values of H; each is combined with each C.
    client : distributed.Client, str or cluster, optional
        As in `fit_distributed`; without one the fits run in this process, as those of `fit_local`.
    report : callable, optional
        Called with the record and the model of each fit, such as to save the model; models are not kept.
    **keywords
        Further keywords of the fits, the same for all. With `run`, each fit keeps its run in a folder of its own below
        this one, and the same call resumes.

    Returns
    -------
    list of HeldOutRecord
        In the order of `n_factors`, then of `n_components`.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError, OSError, MemoryError
        As `fit_distributed` and `MixtureModel.score`.

    Examples
    --------
    >>> import numpy as np
    >>> from vmfa_dask import MixtureModel, held_out_curve
    >>> two = MixtureModel([0.5, 0.5], [[0.0, 0.0], [9.0, 9.0]], np.zeros((2, 0, 2)), np.ones((2, 2)))
    >>> train, test = two.sample(500)[0], two.sample(500, random_state=1)[0]
    >>> curve = held_out_curve(train, test, n_components=[1, 2], n_factors=[1], precision="float64")
    >>> curve[1].score - curve[0].score > 1
    True
    """
    run, counts = keywords.pop("run", None), list(n_components)
    curve = []
    for h in n_factors:
        for c in counts:
            kept = {} if run is None else {"run": f"{os.fspath(run).rstrip('/')}/components-{c}-factors-{h}"}
            settings: Any = {**keywords, **kept, "n_components": c, "n_factors": h}
            begin = time.perf_counter()
            fit = fit_local(train, **settings) if client is None else fit_distributed(train, client=client, **settings)
            seconds = time.perf_counter() - begin
            record = HeldOutRecord(
                n_components=c,
                n_factors=h,
                n_alive=fit.model.n_components,
                n_parameters=fit.model.n_parameters,
                free_energy=fit.history[-1].free_energy,
                score=fit.model.score(test),
                n_passes=len(fit.history),
                converged=fit.converged,
                seconds=seconds,
            )
            if report is not None:
                report(record, fit.model)
            curve.append(record)
    return curve
