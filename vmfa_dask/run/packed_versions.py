"""The packed form of a version of the parameters: made block by block, once for all processes where they share memory.

Where the storage maps the memory of one machine, each component block is packed by the task that makes its parameters,
or by a task of its own before the first pass that needs it; all processes map the result. Elsewhere each process packs
the blocks as it reads them. May import: addresses, values, runtime, em, run.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.addresses import Address
from vmfa_dask.em.packed import SMALL_ARRAYS, PackedMixture, empty_packed, join_blocks, pack_block
from vmfa_dask.run.component_blocks import read_block
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.storage import SharedArrays, Storage
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Centers, ComponentParameters, Float64

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PackedBlock(Address):
    """What the packed form of one component block has beside its part of `PackedArrays`.

    Parameters
    ----------
    version, block : int
        Version of the parameters, and number of the component block.
    """

    kind = addresses.PACKED
    version: int
    block: int

    @property
    def part(self) -> str:
        """The component block."""
        return f"components-{self.block:05d}"

    def number(self, n_blocks: int) -> int:
        """Number of the component block; see `Address.number`."""
        return self.block


@dataclass(frozen=True)
class PackedArrays(Address):
    """Packed form and means of all components, written in parts and mapped by all processes of a machine.

    Parameters
    ----------
    version : int
        Version of the parameters.
    """

    kind = addresses.PACKED_ARRAYS
    part = "all"
    version: int

    def number(self, n_blocks: int) -> int:
        """The only one; see `Address.number`."""
        return 0


def write_packed(
    storage: Storage,
    plan: Plan,
    version: int,
    block: int,
    parameters: ComponentParameters,
    cores: Cores,
    buffers: BufferPool,
) -> None:
    """Pack a component block for all processes; nothing happens where they share no arrays, or have it already.

    Parameters
    ----------
    storage, plan : Storage, Plan
        The run.
    version, block : int
        Version of the parameters, and number of the component block.
    parameters : ComponentParameters
        Its parameters.
    cores, buffers : Cores, BufferPool
        Threads and memory of this process.
    """
    shared, address = storage.shared, PackedBlock(version, block)
    if shared is None or shared.holds(address):
        return
    packed = pack_block(parameters, cores, buffers)
    start, length = plan.component_blocks[block][0], plan.component_blocks[-1][1]
    large = {"packed": packed.packed, "means": parameters.means}
    small = {name: getattr(packed, name) for name in (*SMALL_ARRAYS, "packed_precise")}
    try:
        shared.write_part(PackedArrays(version), length, start, large)
        # Last, as it tells that the part is complete.
        storage.write(address, {**small, "weights": parameters.weights.view()})
    except OSError as error:  # then each process packs the version for itself
        logger.warning("the packed form of component block %d is not shared: %s", block, error)


def read_evaluated(
    storage: Storage, settings: Settings, plan: Plan, version: int, cores: Cores, buffers: BufferPool
) -> tuple[Centers, PackedMixture]:
    """What rows are evaluated with under a version of the parameters; no second copy of them is made.

    Parameters
    ----------
    storage, settings, plan : Storage, Settings, Plan
        The run.
    version : int
        Version of the parameters.
    cores, buffers : Cores, BufferPool
        Threads and memory of this process.

    Returns
    -------
    (Centers, PackedMixture)
        Mapped where processes share them.

    Raises
    ------
    KeyError
        If the storage does not hold the version.
    """
    offset = storage.read(addresses.RowSurvey())["offset"]
    shared = storage.shared
    if shared is not None:
        try:
            return _mapped(storage, shared, plan, version, offset)
        except KeyError:
            logger.debug("version %d is not packed for all processes", version)
    n_components, weights, means, parts = plan.component_blocks[-1][1], [], None, []
    for block, (start, stop) in enumerate(plan.component_blocks):
        parameters = read_block(storage, settings, plan, version, block)
        if means is None:
            (_, h, d), dtype = parameters.loadings.shape, parameters.means.dtype
            # First what is largest: its memory before has just come back, and too many buffers of a size are dropped.
            packed = empty_packed(n_components, h, d, dtype, buffers)
            means = buffers.empty((n_components, d), dtype)
        weights.append(parameters.weights)
        means[start:stop] = parameters.means  # a copy, as stored arrays end with their version
        parts.append(pack_block(parameters, cores, buffers, packed[start:stop]))
    assert means is not None
    centers = Centers(version, np.concatenate(weights), means, offset)
    return centers, parts[0] if len(parts) == 1 else join_blocks([vars(part) for part in parts], packed)


def _mapped(
    storage: Storage, shared: SharedArrays, plan: Plan, version: int, offset: Float64
) -> tuple[Centers, PackedMixture]:
    blocks = [storage.read(PackedBlock(version, block)) for block in range(len(plan.component_blocks))]
    large = shared.map_parts(PackedArrays(version))
    weights = np.concatenate([block["weights"] for block in blocks])
    return Centers(version, weights, large["means"], offset), join_blocks(blocks, large["packed"])


def unpacked_blocks(storage: Storage, plan: Plan, version: int) -> list[int]:
    """Component blocks that no process has packed for all, where processes share arrays.

    Parameters
    ----------
    storage, plan : Storage, Plan
        The run.
    version : int
        Version of the parameters.

    Returns
    -------
    list of int
        Their numbers; empty where each process packs for itself.
    """
    shared = storage.shared
    if shared is None:
        return []
    return [b for b in range(len(plan.component_blocks)) if not shared.holds(PackedBlock(version, b))]


def discard_packed(storage: Storage, version: int) -> None:
    """Forget the packed form of a version; it can be made again.

    Parameters
    ----------
    storage : Storage
        Versions of the run.
    version : int
        Version of the parameters.
    """
    if storage.shared is not None:
        storage.discard(addresses.PACKED, version)
        storage.discard(addresses.PACKED_ARRAYS, version)
