"""Initial parameters out of core (paper, section on the algorithmic realization; AFK-MC²: Bachem et al. 2016).

The proposal of AFK-MC² does not depend on the state of its chains, so the candidates of *all* chains are drawn at once
and gathered in one pass over the rows; the chains then run on that small array. May import: values, kernels, em.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.em.context import RunContext
from vmfa_dask.em.noise import NOISE_MODELS
from vmfa_dask.em.plan import Plan
from vmfa_dask.em.rows import Rows, gather, read_ahead, refuse_non_finite, working_rows
from vmfa_dask.em.settings import Settings
from vmfa_dask.em.storage import GRAPH, PARAMETERS, POSTERIOR, START, Storage
from vmfa_dask.kernels import random, survey
from vmfa_dask.values import Float64, Int32, Int64, Mixture, NeighborGraph

# A feature is shifted when its mean exceeds this many standard deviations: then float32 would lose digits of the rows.
_OFFSET_DEVIATIONS = 64.0


@dataclass(frozen=True)
class Start:
    """A start given whole: parameters, graph and kept components (N, C') of every row."""

    mixture: Mixture
    graph: NeighborGraph
    components: Int32


@dataclass(frozen=True)
class Survey:
    """Moments of the features over some rows: count, mean (D,) and squared deviations (D,), float64."""

    n_rows: int
    means: Float64
    squares: Float64

    def __add__(self, other: Survey) -> Survey:
        # Chan, Golub and LeVeque (1983): stable for any sizes of the two parts.
        n = self.n_rows + other.n_rows
        delta = other.means - self.means
        return Survey(
            n,
            self.means + delta * (other.n_rows / n),
            self.squares + other.squares + delta**2 * (self.n_rows * other.n_rows / n),
        )


@dataclass(frozen=True)
class Candidates:
    """Candidates of the chains that lie in one group: draw numbers, row numbers, rows − offset, squared distances.

    The rows are as kernels take them (see `rows.working_rows`), a quarter of a float32's size for bytes.
    """

    draws: Int64
    rows: Int64
    values: Rows
    distances: Float64


def survey_group(context: RunContext, group: int) -> Survey:
    """Moments of the features of one group; refuses rows that hold NaN or infinity."""
    total: Survey | None = None
    with context.cores.exclusive():
        for first, block in read_ahead(context.rows, *context.plan.groups[group], context.plan.block_rows):
            refuse_non_finite(context.rows, first, block)
            d = block.shape[1]
            means, squares = np.empty(d), np.empty(d)
            context.cores.run(
                lambda a, b, block=block, m=means, s=squares: survey.feature_moments(block, a, b, m, s),
                context.cores.split(d, parts_per_thread=1),
            )
            part = Survey(len(block), means, squares)
            total = part if total is None else total + part
    assert total is not None
    return total


def begin(context: RunContext, surveys: Sequence[Survey]) -> None:
    """Write offset, variances and the first seed of a run."""
    total = surveys[0]
    for part in surveys[1:]:
        total += part
    variances = total.squares / total.n_rows
    shifted = np.abs(total.means) > _OFFSET_DEVIATIONS * np.sqrt(variances)
    narrow = context.rows.dtype.itemsize == 1 or context.settings.precision == "float64"
    first = np.full((1, 1), -1, np.int32)
    random.distinct_integers(context.settings.random_state, random.SEED_ROWS, 0, 0, min(total.n_rows, 2**31 - 1), first)
    context.storage.write(
        START,
        0,
        0,
        {
            "offset": np.where(shifted & (not narrow), total.means, 0.0),
            "variances": variances,
            "first_row": first[0].astype(np.int64),
        },
    )


def first_seed(context: RunContext) -> Float64:
    row = context.storage.read(START, 0, 0)["first_row"]
    seed: Float64 = gather(context.rows, row)[0].astype(np.float64)
    return seed


def _distances(context: RunContext, block: Any, center: Float64) -> Float64:
    distances = np.empty(len(block))
    context.cores.run(
        lambda a, b: survey.squared_distances(block, center, a, b, distances), context.cores.split(len(block))
    )
    return distances


def distance_mass(context: RunContext, group: int) -> float:
    """Sum of the squared distances of a group's rows to the first seed: its share of the proposal."""
    center = first_seed(context)
    with context.cores.exclusive():
        blocks = read_ahead(context.rows, *context.plan.groups[group], context.plan.block_rows)
        return float(sum(_distances(context, block, center).sum() for _, block in blocks))


def _draws(context: RunContext) -> Float64:
    """Uniform numbers of all candidates: kind of proposal, place."""
    settings = context.settings
    numbers = np.empty(((settings.n_components - 1) * settings.chain_length, 2))
    random.uniforms(settings.random_state, random.SEED_ROWS, 1, 0, numbers)
    return numbers


def gather_candidates(context: RunContext, group: int, masses: Sequence[float]) -> Candidates:
    """All candidates that the proposal ½ d²/Σd² + ½ 1/N places in one group."""
    start, stop = context.plan.groups[group]
    numbers, total = _draws(context), float(np.sum(masses))
    by_distance = (numbers[:, 0] < 0.5) & (total > 0)
    before = float(np.sum(masses[:group]))
    targets = numbers[:, 1] * total
    last = group == len(masses) - 1
    mine = by_distance & (targets >= before) & (last | (targets < before + masses[group]))
    uniform = np.minimum((numbers[:, 1] * context.plan.n_rows).astype(np.int64), context.plan.n_rows - 1)
    chosen = np.where(by_distance, -1, uniform)
    center, offset = first_seed(context), context.offset()
    found: list[tuple[Int64, Int64, Rows, Float64]] = []
    with context.cores.exclusive():
        for first, block in read_ahead(context.rows, start, stop, context.plan.block_rows):
            distances = _distances(context, block, center)
            edges = before + np.cumsum(distances)
            end = np.inf if last and first + len(block) == stop else edges[-1]
            here = mine & (targets >= before) & (targets < end)
            chosen[here] = first + np.minimum(np.searchsorted(edges, targets[here], side="right"), len(block) - 1)
            draws = np.flatnonzero((chosen >= first) & (chosen < first + len(block)))
            local = chosen[draws] - first
            values = working_rows(block[local], offset, context.settings.precision)
            found.append((draws, chosen[draws], values, distances[local]))
            mine &= ~here
            before = float(edges[-1])
    return Candidates(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def uniform_seeds(context: RunContext) -> Int64:
    """C distinct row numbers, uniformly drawn, ascending draws of one hash stream."""
    settings, n = context.settings, context.plan.n_rows
    chosen: dict[int, None] = {}
    numbers, draw = np.empty((settings.n_components * 2 + 64, 1)), 0
    while len(chosen) < settings.n_components:
        random.uniforms(settings.random_state, random.SEED_ROWS, 2, draw, numbers)
        for value in np.minimum((numbers[:, 0] * n).astype(np.int64), n - 1).tolist():
            chosen.setdefault(value, None)
        draw += len(numbers)
    return np.array(list(chosen)[: settings.n_components], np.int64)


def write_start(context: RunContext, seed_rows: Int64, seeds: Float64) -> None:
    """Version 0: means at the seeds, global variances, loadings uniform in [0, 1), random neighbours."""
    settings = context.settings
    c, h, d = settings.n_components, settings.n_factors, seeds.shape[1]
    variances = context.storage.read(START, 0, 0)["variances"]
    if NOISE_MODELS[settings.covariance_type, settings.noise].isotropic:
        variances = np.full_like(variances, variances.mean())
    variances = np.maximum(variances, settings.reg_covar).astype(settings.precision)
    context.storage.write(START, 0, 1, {"seed_rows": seed_rows})
    for block, (start, stop) in enumerate(context.plan.component_blocks):
        loadings = np.empty((stop - start, h * d))
        random.uniforms(settings.random_state, random.LOADINGS, 0, start, loadings)
        dtype = np.dtype(settings.precision)
        arrays = {
            "weights": np.full(stop - start, 1.0 / c),
            "means": seeds[start:stop].astype(dtype),
            "loadings": loadings.reshape(stop - start, h, d).astype(dtype),
            "noise_variances": np.tile(variances, (stop - start, 1)),
        }
        write_parameters(context.storage, settings, context.plan, block, arrays)
        neighbors = np.full((stop - start, settings.graph_size), -1, np.int32)
        neighbors[:, 0] = np.arange(start, stop)
        random.distinct_integers(settings.random_state, random.NEIGHBORS, 0, start, c, neighbors)
        context.storage.write(GRAPH, 0, block, {"neighbors": neighbors})


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
    settings = context.settings
    random.distinct_integers(settings.random_state, random.POSTERIOR, 0, start, settings.n_components, components)
    return components


def write_given_start(storage: Storage, settings: Settings, plan: Plan, start: Start) -> None:
    """Version 0 from a start that is given whole; the driver writes it, so that it does not travel as a task.

    Raises
    ------
    ValueError
        When its sizes are not those of the run.
    """
    dtype = np.dtype(settings.precision)
    mixture, n = start.mixture, plan.n_rows
    expected = {"n_components": settings.n_components, "n_factors": settings.n_factors}
    for name, value in expected.items():
        if getattr(mixture, name) != value:
            raise ValueError(f"start.mixture: {name} is {getattr(mixture, name)}, the run has {name}={value}")
    for name, found, shape in (
        ("components", start.components.shape, (n, settings.truncation)),
        ("graph", start.graph.neighbors.shape, (settings.n_components, settings.graph_size)),
    ):
        if found != shape:
            raise ValueError(f"start.{name}: shape {found}, expected {shape}")
    noise = mixture.noise_variances
    if settings.noise == "shared" and np.any(noise != noise[0]):
        raise ValueError("start.mixture: noise_variances differ between components, and the run has noise='shared'")
    if settings.covariance_type == "isotropic" and np.any(noise != noise[:, :1]):
        raise ValueError("start.mixture: noise_variances differ between features, and the run is 'isotropic'")
    storage.write(START, 0, 0, {"offset": np.array(mixture.offset)})
    for block, (low, high) in enumerate(plan.component_blocks):
        arrays = {
            name: np.array(getattr(mixture, name)[low:high], dtype) for name in ("means", "loadings", "noise_variances")
        }
        arrays["weights"] = np.array(mixture.weights[low:high])
        write_parameters(storage, settings, plan, block, arrays)
        storage.write(GRAPH, 0, block, {"neighbors": np.array(start.graph.neighbors[low:high])})
    for group, (low, high) in enumerate(plan.groups):
        storage.write(POSTERIOR, 0, group, {"components": np.array(start.components[low:high], np.int32)})
