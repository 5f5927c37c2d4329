"""What a pass reads from the storage of a run and writes there: the model, posteriors, and moments on their way.

The model is assembled from component blocks. May import: values, em, run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask import addresses
from vmfa_dask.addresses import Address
from vmfa_dask.run.component_blocks import PARAMETER_NAMES, read_block, read_neighbors
from vmfa_dask.run.plan import Plan, reorders_rows
from vmfa_dask.run.row_copies import RowCells, RowCounts, RowNumbers
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.state import RunState
from vmfa_dask.run.storage import Storage
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.values import Mixture, Moments, NeighborGraph, TruncatedPosterior


def read_mixture(
    storage: Storage,
    settings: Settings,
    plan: Plan,
    feature_shape: tuple[int, ...],
    version: int,
    buffers: BufferPool | None = None,
    alive: bool = False,
) -> Mixture:
    """Parameters of a version.

    Parameters
    ----------
    storage, settings, plan : Storage, Settings, Plan
        The run.
    feature_shape : tuple of int
        Shape of one row.
    version : int
        Number of the version.
    buffers : BufferPool, optional
        Where the arrays come from.
    alive : bool
        Leave out components without weight.

    Returns
    -------
    Mixture
        A copy, made block by block.

    Raises
    ------
    KeyError
        If the storage does not hold the version.
    """
    buffers, filled = buffers or BufferPool(), 0
    arrays: dict[str, NDArray[Any]] = {}
    for number in range(len(plan.component_blocks)):
        block = read_block(storage, settings, plan, version, number)
        chosen = block.weights > 0 if alive else np.full(len(block.weights), True)
        n = int(np.count_nonzero(chosen))
        for name in PARAMETER_NAMES:
            array = getattr(block, name)
            if number == 0:
                arrays[name] = buffers.empty((settings.n_components, *array.shape[1:]), array.dtype)
            arrays[name][filled : filled + n] = array if n == len(array) else array[chosen]
        filled += n
    arrays = {name: array[:filled] for name, array in arrays.items()}
    offset = storage.read(addresses.RowSurvey())["offset"]
    return Mixture(**arrays, feature_shape=feature_shape, offset=offset, version=version)


def read_heaviest(
    storage: Storage, plan: Plan, version: int, most: int
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64]]:
    """Components of a version that have the largest weights; components that were split have those from before.

    Parameters
    ----------
    storage, plan : Storage, Plan
        The run.
    version : int
        Number of the version.
    most : int
        How many, at most.

    Returns
    -------
    components : (n,) int64 array
        Their numbers, the heaviest first.
    weights : (n,) array
        Their weights.
    means : (n, D) float64 array
        Their means in the units of the data.

    Raises
    ------
    KeyError
        If the storage does not hold the version.
    """
    blocks = [storage.read(addresses.Parameters(version, b)) for b in range(len(plan.component_blocks))]
    weights = np.concatenate([block["weights"] for block in blocks])
    components = np.argsort(-weights, kind="stable")[:most]
    means = np.empty((len(components), blocks[0]["means"].shape[1]))
    for (start, stop), block in zip(plan.component_blocks, blocks, strict=True):
        inside = (components >= start) & (components < stop)
        means[inside] = block["means"][components[inside] - start]
    return components, weights[components], means + storage.read(addresses.RowSurvey())["offset"]


def read_graph(storage: Storage, settings: Settings, plan: Plan, version: int) -> NeighborGraph:
    """Neighbour graph of a version.

    Parameters
    ----------
    storage, settings, plan : Storage, Settings, Plan
        The run.
    version : int
        Number of the version.

    Returns
    -------
    NeighborGraph

    Raises
    ------
    KeyError
        If the storage does not hold the version.
    """
    blocks = range(len(plan.component_blocks))
    return NeighborGraph(np.concatenate([read_neighbors(storage, settings, plan, version, b) for b in blocks]))


def read_posterior(storage: Storage, version: int, group: int) -> TruncatedPosterior:
    """Kept components of the rows of a group.

    Parameters
    ----------
    storage : Storage
        Versions of the run.
    version, group : int
        Number of the pass that reads them, and of the group.

    Returns
    -------
    TruncatedPosterior

    Raises
    ------
    KeyError
        If the storage does not hold them.
    """
    stored = storage.read(addresses.Posterior(version, group))
    return TruncatedPosterior(stored["components"], stored.get("resting"))


def write_posterior(storage: Storage, version: int, group: int, posterior: TruncatedPosterior) -> None:
    """Write the kept components of the rows of a group.

    Parameters
    ----------
    storage : Storage
        Versions of the run.
    version, group : int
        Number of the pass that reads them, and of the group.
    posterior : TruncatedPosterior
        The kept components.
    """
    storage.write(addresses.Posterior(version, group), posterior.arrays())


def read_moments(storage: Storage, iteration: int, group: int, block: int) -> Moments:
    """Moments that one group contributes to one component block.

    Parameters
    ----------
    storage : Storage
        Versions of the run.
    iteration, group, block : int
        Number of the pass, of the group and of the component block.

    Returns
    -------
    Moments

    Raises
    ------
    KeyError
        If the storage does not hold them.
    """
    return Moments(**storage.read(addresses.GroupMoments(iteration, group, block)))


def write_moments(storage: Storage, iteration: int, group: int, block: int, moments: Moments) -> None:
    """Write the moments that one group contributes to one component block.

    Parameters
    ----------
    storage : Storage
        Versions of the run.
    iteration, group, block : int
        Number of the pass, of the group and of the component block.
    moments : Moments
        The moments.

    Raises
    ------
    OSError
        If there is no room for them.
    """
    arrays = {name: array for name, array in vars(moments).items() if array is not None}
    storage.write(addresses.GroupMoments(iteration, group, block), arrays)


def needed_by(state: RunState, settings: Settings, plan: Plan) -> list[tuple[Address, bool]]:
    """Addresses that a storage must hold for a run to continue.

    Parameters
    ----------
    state : RunState
        Where the run stands.
    settings, plan : Settings, Plan
        The run.

    Returns
    -------
    list of (Address, bool)
        In the order in which they are kept; False marks those that not every run has. Rows of seeds exist where seeding
        took place, and the first posteriors are drawn from them where they are not stored.
    """
    return [part for kind, version in state.needed() for part in _parts_of(kind, version, settings, plan)]


def _parts_of(kind: str, version: int, settings: Settings, plan: Plan) -> list[tuple[Address, bool]]:
    blocks, splits = range(len(plan.component_blocks)), settings.empty_components == "split"
    parts: list[tuple[Address, bool]]
    if kind == addresses.START:
        survey = (addresses.RowSurvey(), not settings.standardize)
        parts = [survey, (addresses.SeedRows(), False), (addresses.SeedCells(), False)]
        if reorders_rows(settings):
            parts.append((RowCounts(), False))
            for group in range(len(plan.groups)):
                parts += [(RowCells(group), False), (RowNumbers(group), False)]
        return parts
    if kind == addresses.POSTERIOR:
        needed = version > 0 and settings.search == "guided"
        return [(addresses.Posterior(version, group), needed) for group in range(len(plan.groups))]
    if kind == addresses.GRAPH:
        parts = [(addresses.Graph(version, block), True) for block in blocks]
        return [*parts, (addresses.SplitGraph(version), False)] if splits else parts
    parts = [(addresses.Parameters(version, block), True) for block in blocks]
    if settings.noise == "shared":
        parts.append((addresses.SharedNoise(version), True))
    return [*parts, (addresses.SplitParameters(version), False)] if splits else parts
