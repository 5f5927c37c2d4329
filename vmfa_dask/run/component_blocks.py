"""One component block of a version, as a task reads it: no other block is read but for components that were split.

May import: values, em, run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask import addresses
from vmfa_dask.addresses import Address
from vmfa_dask.em.splitting import Splits, split_neighbors, split_parameters
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.storage import Storage
from vmfa_dask.values import ComponentParameters, Int32

PARAMETER_NAMES = ("weights", "means", "loadings", "noise_variances")


def read_block(storage: Storage, settings: Settings, plan: Plan, version: int, block: int) -> ComponentParameters:
    """Parameters of one component block.

    Parameters
    ----------
    storage, settings, plan : Storage, Settings, Plan
        The run.
    version, block : int
        Number of the version, and of the component block.

    Returns
    -------
    ComponentParameters
        The arrays of the storage themselves, unless components were split.

    Raises
    ------
    KeyError
        If the storage does not hold the version.
    """

    def stored(number: int) -> dict[str, NDArray[Any]]:
        arrays = storage.read(addresses.Parameters(version, number))
        return {name: arrays[name] for name in PARAMETER_NAMES if name in arrays}

    splits = _read_splits(storage, settings, addresses.SplitParameters(version))
    start, stop = plan.component_blocks[block]
    numbers = np.arange(start, stop, dtype=np.int32)
    if splits is None:
        arrays = stored(block)
    else:
        arrays, numbers = _with_donors(stored, plan, block, splits)
    if "noise_variances" not in arrays:
        noise = storage.read(addresses.SharedNoise(version))["noise_variances"]
        arrays["noise_variances"] = np.tile(noise, (len(numbers), 1))
    if splits is not None:
        split_parameters(arrays, splits, settings.random_state, version, settings.n_components, numbers)
    return ComponentParameters(**{name: array[: stop - start] for name, array in arrays.items()})


def read_neighbors(storage: Storage, settings: Settings, plan: Plan, version: int, block: int) -> Int32:
    """Neighbours of the components of one block.

    Parameters
    ----------
    storage, settings, plan : Storage, Settings, Plan
        The run.
    version, block : int
        Number of the version of the graph, and of the component block.

    Returns
    -------
    (B, G) int32 array
        Column 0 is the component itself, -1 pads.

    Raises
    ------
    KeyError
        If the storage does not hold the version.
    """

    def stored(number: int) -> dict[str, NDArray[Any]]:
        return {"neighbors": storage.read(addresses.Graph(version, number))["neighbors"]}

    splits = _read_splits(storage, settings, addresses.SplitGraph(version))
    if splits is None:
        return stored(block)["neighbors"]
    arrays, numbers = _with_donors(stored, plan, block, splits)
    start, stop = plan.component_blocks[block]
    neighbors = split_neighbors(arrays["neighbors"], splits, numbers)[: stop - start]
    neighbors.flags.writeable = False
    return neighbors


def _with_donors(
    stored: Callable[[int], dict[str, NDArray[Any]]], plan: Plan, block: int, splits: Splits
) -> tuple[dict[str, NDArray[Any]], Int32]:
    """Arrays of a block, those of donors in other blocks behind them, and the numbers of all these components."""
    start, stop = plan.component_blocks[block]
    donors = splits.donors_outside(start, stop)
    parts, numbers = [stored(block)], [np.arange(start, stop, dtype=np.int32)]
    for other, (low, high) in enumerate(plan.component_blocks):
        here = donors[(donors >= low) & (donors < high)]
        if len(here):
            parts.append({name: array[here - low] for name, array in stored(other).items()})
            numbers.append(here)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, np.concatenate(numbers)


def _read_splits(storage: Storage, settings: Settings, address: Address) -> Splits | None:
    if settings.empty_components != "split":
        return None
    try:
        return Splits(**storage.read(address))
    except KeyError:
        return None
