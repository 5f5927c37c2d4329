"""Version 0 of a run: parameters, neighbours and kept components, from seeds or as they are given.

May import: values, kernels, em, seeding, run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask import addresses
from vmfa_dask.em.noise import NOISE_MODELS
from vmfa_dask.kernels import random
from vmfa_dask.run.component_blocks import PARAMETER_NAMES
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.storage import Arrays, Storage
from vmfa_dask.seeding.cells import group_seeds
from vmfa_dask.seeding.first_parameters import first_parameters, random_neighbors
from vmfa_dask.sizes import Sized
from vmfa_dask.values import Float64, Int32, Int64, Mixture, NeighborGraph


@dataclass(frozen=True)
class Start(Sized):
    """A start that is given in place of seeds.

    Parameters
    ----------
    mixture : Mixture
        The first parameters.
    graph : NeighborGraph, optional
        Neighbours of each component; by default random ones.
    components : (N, C') int32 array, optional
        Kept components of every row; by default random ones.
    """

    mixture: Mixture
    graph: NeighborGraph | None = None
    components: Int32 | None = None


def write_start(context: RunContext, seed_rows: Int64, seeds: Float64, variances: Float64) -> None:
    """Write version 0 from seeds: means at the seeds, random loadings, neighbours from cells or random ones.

    Parameters
    ----------
    context : RunContext
        The run, after the survey of its rows.
    seed_rows : (C,) int64 array
        Row numbers of the seeds; empty where they are no rows.
    seeds : (C, D) float64 array
        The seeds, relative to the offset.
    variances : (D,) float64 array
        First noise variances.
    """
    settings, scales = context.settings, context.scales()
    if NOISE_MODELS[settings.covariance_type, settings.noise].isotropic:
        variances = np.mean(variances / scales**2) * scales**2
    variances = np.maximum(variances, context.lowest_variances()).astype(settings.precision)
    cells = None
    if settings.starts_from_cells and len(seed_rows):
        points = seeds.astype(settings.precision)
        cells = group_seeds(points, scales, settings.graph_size, settings.truncation, context.cores)
        context.storage.write(addresses.SeedCells(), {"centers": cells.centers, "edges": cells.edges})
        seed_rows, seeds = seed_rows[cells.order], seeds[cells.order]
    context.storage.write(addresses.SeedRows(), {"seed_rows": seed_rows})
    sizes = (settings.n_components, settings.n_factors)
    for block, (start, stop) in enumerate(context.plan.component_blocks):
        arrays = first_parameters(seeds[start:stop], start, *sizes, variances, scales, settings.random_state)
        _write_parameters(context.storage, settings, block, arrays)
        if cells is None:
            _write_random_neighbors(context.storage, settings, context.plan, block)
        else:
            context.storage.write(addresses.Graph(0, block), {"neighbors": cells.neighbors[start:stop].copy()})


def _write_random_neighbors(storage: Storage, settings: Settings, plan: Plan, block: int) -> None:
    components = plan.component_blocks[block]
    sizes = (settings.n_components, settings.graph_size)
    neighbors = random_neighbors(*components, *sizes, settings.random_state)
    storage.write(addresses.Graph(0, block), {"neighbors": neighbors})


def _write_parameters(storage: Storage, settings: Settings, block: int, arrays: dict[str, NDArray[Any]]) -> None:
    """Version 0 of one component block; noise variances that components share have an address of their own."""
    if settings.noise == "shared":
        noise = arrays.pop("noise_variances")
        if block == 0:
            storage.write(addresses.SharedNoise(0), {"noise_variances": noise[0].copy()})
    storage.write(addresses.Parameters(0, block), arrays)


def initial_components(context: RunContext, group: int) -> Int32:
    """First K_n of the rows of a group: the component that a row seeds, the others uniform and distinct.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.

    Returns
    -------
    (n, C') int32 array
    """
    components = seeded_components(context, group)
    fill_components(context, group, components)
    return components


def seeded_components(context: RunContext, group: int) -> Int32:
    """K_n with nothing but the component that a row seeds, in front; the rest is −1.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.

    Returns
    -------
    (n, C') int32 array
    """
    start, stop = context.plan.groups[group]
    components = np.full((stop - start, context.settings.truncation), -1, np.int32)
    seed_rows = context.storage.read(addresses.SeedRows())["seed_rows"]
    seeding = np.flatnonzero((seed_rows >= start) & (seed_rows < stop))
    components[seed_rows[seeding] - start, 0] = seeding
    return components


def fill_components(context: RunContext, group: int, components: Int32) -> None:
    """Replace each -1 in K_n by a uniformly drawn component that the row does not have yet.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    components : (n, C') int32 array
        Kept components of its rows; changed in place.
    """
    settings, first_row = context.settings, context.plan.groups[group][0]
    random.distinct_integers(settings.random_state, random.POSTERIOR, 0, first_row, settings.n_components, components)


def write_given_start(
    storage: Storage, settings: Settings, plan: Plan, start: Start, surveyed: Arrays | None = None
) -> None:
    """Write version 0 from a start that is given; the driver does so, as it is too large to travel with a task.

    Parameters
    ----------
    storage, settings, plan : Storage, Settings, Plan
        The run.
    start : Start
        The start.
    surveyed : mapping of str to array, optional
        Result of the survey of the rows, with the offset of the start; by default that offset alone. Where it is empty
        the survey is still to come (`starts.initialization.complete_start`).

    Raises
    ------
    ValueError
        If sizes of the start are not those of the run, or its parameters not of the run's type.
    """
    check_start(settings, plan, start)
    mixture, dtype = start.mixture, np.dtype(settings.precision)
    surveyed = {"offset": mixture.offset} if surveyed is None else surveyed
    if surveyed:
        storage.write(addresses.RowSurvey(), {name: np.array(array) for name, array in surveyed.items()})
    no_rows = np.zeros(0, np.int64)
    storage.write(addresses.SeedRows(), {"seed_rows": no_rows, "offset": np.array(mixture.offset)})
    for block, (low, high) in enumerate(plan.component_blocks):
        arrays = {name: np.array(getattr(mixture, name)[low:high], dtype) for name in PARAMETER_NAMES[1:]}
        arrays["weights"] = np.array(mixture.weights[low:high])
        _write_parameters(storage, settings, block, arrays)
        if start.graph is None:
            _write_random_neighbors(storage, settings, plan, block)
        else:
            storage.write(addresses.Graph(0, block), {"neighbors": np.array(start.graph.neighbors[low:high])})
    if start.components is not None:
        for group, (low, high) in enumerate(plan.groups):
            components = np.array(start.components[low:high], np.int32)
            storage.write(addresses.Posterior(0, group), {"components": components})


def check_start(settings: Settings, plan: Plan, start: Start) -> None:
    """Refuse a start whose sizes or type are not those of the run.

    Parameters
    ----------
    settings, plan : Settings, Plan
        The run.
    start : Start
        The start.

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
