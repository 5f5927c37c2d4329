"""Version 0 of a run: parameters, neighbours and kept components, from seeds or as they are given.

May import: values, kernels, em.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.em.context import RunContext
from vmfa_dask.em.noise import NOISE_MODELS
from vmfa_dask.em.plan import Plan
from vmfa_dask.em.settings import Settings
from vmfa_dask.em.storage import GRAPH, PARAMETERS, POSTERIOR, START, Arrays, Storage
from vmfa_dask.kernels import random
from vmfa_dask.sizes import Sized
from vmfa_dask.values import Float64, Int32, Int64, Mixture, NeighborGraph


@dataclass(frozen=True)
class Start(Sized):
    """A start that is given in place of seeds.

    Parameters
    ----------
    mixture : the first parameters
    graph : neighbours of each component; by default random ones
    components : (N, C') int32, kept components of every row; by default random ones
    """

    mixture: Mixture
    graph: NeighborGraph | None = None
    components: Int32 | None = None


def write_start(context: RunContext, seed_rows: Int64, seeds: Float64, variances: Float64) -> None:
    """Version 0: means at the seeds (C, D), variances (D,), loadings uniform in [0, 1), random neighbours.

    Loadings are in the units of the features (see `Settings.standardize`).
    """
    settings, scales = context.settings, context.scales()
    c, h, d = settings.n_components, settings.n_factors, seeds.shape[1]
    if NOISE_MODELS[settings.covariance_type, settings.noise].isotropic:
        variances = np.mean(variances / scales**2) * scales**2
    variances = np.maximum(variances, context.lowest_variances()).astype(settings.precision)
    context.storage.write(START, 0, 1, {"seed_rows": seed_rows})
    for block, (start, stop) in enumerate(context.plan.component_blocks):
        loadings = np.empty((stop - start, h * d))
        random.uniforms(settings.random_state, random.LOADINGS, 0, start, loadings)
        dtype = np.dtype(settings.precision)
        arrays = {
            "weights": np.full(stop - start, 1.0 / c),
            "means": seeds[start:stop].astype(dtype),
            "loadings": (loadings.reshape(stop - start, h, d) * scales).astype(dtype),
            "noise_variances": np.tile(variances, (stop - start, 1)),
        }
        write_parameters(context.storage, settings, context.plan, block, arrays)
        context.storage.write(GRAPH, 0, block, {"neighbors": _random_neighbors(settings, start, stop)})


def _random_neighbors(settings: Settings, start: int, stop: int) -> Int32:
    """g_c of components ``start:stop``: the component itself, the others uniform and distinct."""
    neighbors = np.full((stop - start, settings.graph_size), -1, np.int32)
    neighbors[:, 0] = np.arange(start, stop)
    random.distinct_integers(settings.random_state, random.NEIGHBORS, 0, start, settings.n_components, neighbors)
    return neighbors


def write_parameters(
    storage: Storage, settings: Settings, plan: Plan, block: int, arrays: dict[str, NDArray[Any]]
) -> None:
    """Version 0 of one component block; noise variances that components share go into a block of their own."""
    if settings.noise == "shared":
        noise = arrays.pop("noise_variances")
        if block == 0:
            storage.write(PARAMETERS, 0, len(plan.component_blocks), {"noise_variances": noise[0].copy()})
    storage.write(PARAMETERS, 0, block, arrays)


def initial_components(context: RunContext, group: int) -> Int32:
    """K_n of the rows of a group: the component that a row seeds, the others uniform and distinct."""
    start, stop = context.plan.groups[group]
    components = np.full((stop - start, context.settings.truncation), -1, np.int32)
    seed_rows = context.storage.read(START, 0, 1)["seed_rows"]
    here = np.flatnonzero((seed_rows >= start) & (seed_rows < stop))
    components[seed_rows[here] - start, 0] = here
    fill_components(context, group, components)
    return components


def fill_components(context: RunContext, group: int, components: Int32) -> None:
    """Replace each -1 in K_n of the rows of a group by a component that the row does not have, uniformly drawn."""
    settings, first_row = context.settings, context.plan.groups[group][0]
    random.distinct_integers(settings.random_state, random.POSTERIOR, 0, first_row, settings.n_components, components)


def write_given_start(
    storage: Storage, settings: Settings, plan: Plan, start: Start, known: Arrays | None = None
) -> None:
    """Version 0 from a start that is given; the driver writes it, so that it does not travel as a task.

    `known` is what the survey of the rows has found, with the offset of the start; by default that offset alone. Where
    it is empty the survey is still to come (`initialization.complete_start`).

    Raises
    ------
    ValueError
        When sizes of the start are not those of the run, or its parameters not of the run's type.
    """
    check_start(settings, plan, start)
    mixture, dtype = start.mixture, np.dtype(settings.precision)
    known = {"offset": mixture.offset} if known is None else known
    if known:
        storage.write(START, 0, 0, {name: np.array(array) for name, array in known.items()})
    storage.write(START, 0, 1, {"seed_rows": np.zeros(0, np.int64), "offset": np.array(mixture.offset)})
    for block, (low, high) in enumerate(plan.component_blocks):
        arrays = {
            name: np.array(getattr(mixture, name)[low:high], dtype) for name in ("means", "loadings", "noise_variances")
        }
        arrays["weights"] = np.array(mixture.weights[low:high])
        write_parameters(storage, settings, plan, block, arrays)
        neighbors = start.graph.neighbors[low:high] if start.graph else _random_neighbors(settings, low, high)
        storage.write(GRAPH, 0, block, {"neighbors": np.array(neighbors)})
    if start.components is not None:
        for group, (low, high) in enumerate(plan.groups):
            storage.write(POSTERIOR, 0, group, {"components": np.array(start.components[low:high], np.int32)})


def check_start(settings: Settings, plan: Plan, start: Start) -> None:
    """Refuse a start that is not of the run's sizes and type.

    Raises
    ------
    ValueError
        Naming the part of the start, what it has and what the run has.
    """
    mixture = start.mixture
    for name in ("n_components", "n_factors"):
        found, expected = getattr(mixture, name), getattr(settings, name)
        if found != expected:
            raise ValueError(f"start.mixture: {name} is {found}, the run has {name}={expected}")
    sizes = {
        "components": (start.components, (plan.n_rows, settings.truncation)),
        "graph": (start.graph.neighbors if start.graph else None, (settings.n_components, settings.graph_size)),
    }
    for name, (array, shape) in sizes.items():
        if array is not None and array.shape != shape:
            raise ValueError(f"start.{name}: shape {array.shape}, expected {shape}")
    noise = mixture.noise_variances
    if settings.noise == "shared" and np.any(noise != noise[0]):
        raise ValueError("start.mixture: noise_variances differ between components, and the run has noise='shared'")
    # Isotropic in units of features whose spread the run finds out first is constrained by its first M-step.
    equal = settings.covariance_type == "isotropic" and not settings.standardize
    if equal and np.any(noise != noise[:, :1]):
        raise ValueError("start.mixture: noise_variances differ between features, and the run is 'isotropic'")
