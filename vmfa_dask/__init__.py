"""Out-of-core, distributed training of very large Gaussian mixtures (mixtures of factor analyzers) on Dask.

Examples
--------
>>> import numpy as np
>>> from dask.distributed import Client
>>> from vmfa_dask import fit_distributed
>>> rows = np.random.default_rng(0).normal(size=(200, 4))  # or the path of a Zarr store
>>> with Client(processes=False, dashboard_address="127.0.0.1:0") as client:
...     fit = fit_distributed(rows, n_components=2, n_factors=1, max_iter=3, client=client)
>>> fit.model.score_samples(rows).shape
(200,)
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vmfa_dask import plot as plot
    from vmfa_dask.apply.bounds import Bounds
    from vmfa_dask.apply.model import MixtureModel
    from vmfa_dask.apply.posteriors import SparseProbabilities
    from vmfa_dask.run.executor import SchedulerLost
    from vmfa_dask.run.records import IterationRecord
    from vmfa_dask.run.settings import Settings
    from vmfa_dask.run.start import Start
    from vmfa_dask.service.checkpoints import RunStopped
    from vmfa_dask.service.denoising import denoise
    from vmfa_dask.service.detached import DetachedRun, attach
    from vmfa_dask.service.estimator import MixtureOfFactorAnalyzers
    from vmfa_dask.service.fit import fit_distributed, fit_local
    from vmfa_dask.service.inference import infer
    from vmfa_dask.service.model_choice import HeldOutRecord, held_out_curve
    from vmfa_dask.service.run_plan import RunPlan, plan_run
    from vmfa_dask.service.training import Fit
    from vmfa_dask.values import Mixture, NeighborGraph

__version__ = "0.1.0"
__all__ = [
    "Bounds",
    "DetachedRun",
    "Fit",
    "HeldOutRecord",
    "IterationRecord",
    "Mixture",
    "MixtureModel",
    "MixtureOfFactorAnalyzers",
    "NeighborGraph",
    "RunPlan",
    "RunStopped",
    "SchedulerLost",
    "Settings",
    "SparseProbabilities",
    "Start",
    "attach",
    "denoise",
    "fit_distributed",
    "fit_local",
    "held_out_curve",
    "infer",
    "plan_run",
]

# Names are loaded on first use: `vmfa_dask.em` must import where Dask and Zarr are absent.
_HOMES = {
    "Bounds": "apply.bounds",
    "Fit": "service.training",
    "DetachedRun": "service.detached",
    "attach": "service.detached",
    "denoise": "service.denoising",
    "fit_distributed": "service.fit",
    "fit_local": "service.fit",
    "HeldOutRecord": "service.model_choice",
    "held_out_curve": "service.model_choice",
    "infer": "service.inference",
    "RunPlan": "service.run_plan",
    "plan_run": "service.run_plan",
    "MixtureModel": "apply.model",
    "SparseProbabilities": "apply.posteriors",
    "MixtureOfFactorAnalyzers": "service.estimator",
    "SchedulerLost": "run.executor",
    "RunStopped": "service.checkpoints",
    "Settings": "run.settings",
    "IterationRecord": "run.records",
    "Start": "run.start",
    "Mixture": "values",
    "NeighborGraph": "values",
}
_MODULES = ("plot",)  # not in `__all__`: needs an extra

if find_spec("sklearn") is None:  # an extra; who asks for the name all the same is told so
    __all__.remove("MixtureOfFactorAnalyzers")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
