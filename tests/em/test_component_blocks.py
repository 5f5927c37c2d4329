"""Component blocks of a version: a task reads its own, and all of them together are the version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.em.runs import make_context
from tests.samples import draw, make_mixture, make_start
from vmfa_dask import addresses
from vmfa_dask.addresses import Address
from vmfa_dask.em.splitting import Splits
from vmfa_dask.run.component_blocks import PARAMETER_NAMES
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import write_given_start
from vmfa_dask.run.step import Step
from vmfa_dask.run.storage import MemoryStorage
from vmfa_dask.run.tasks.e_step import run_e_step
from vmfa_dask.run.tasks.m_step import update_block
from vmfa_dask.run.versions import read_graph, read_mixture
from vmfa_dask.values import Mixture

MIXTURE = make_mixture(8, 9, 3, seed=4, spread=2.0)
ROWS = draw(MIXTURE, 700).astype(np.float32)
SETTINGS = Settings.paper(8, 3, truncation=3, neighborhood=4)
BLOCKS = ((0, 3), (3, 6), (6, 8))


class Noting(MemoryStorage):
    """Remembers what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Address] = []

    def read(self, address: Address) -> Any:
        self.noted.append(address)
        return super().read(address)


def context_of(blocks: tuple[tuple[int, int], ...], mixture: Mixture = MIXTURE) -> RunContext:
    context = make_context(ROWS, SETTINGS, n_groups=2)
    context.plan, context.storage = replace(context.plan, component_blocks=blocks), Noting()
    write_given_start(context.storage, SETTINGS, context.plan, make_start(mixture, len(ROWS), 3, 4))
    return context


def test_an_update_reads_its_own_block() -> None:
    context, step = context_of(BLOCKS), Step(iteration=0, parameters=0, graph=0, search=True, update=True)
    results = [run_e_step(context, group, step) for group in range(2)]
    storage = context.storage
    assert isinstance(storage, Noting)
    storage.noted.clear()
    update_block(context, 1, step, *results)
    read = {address for address in storage.noted if address.kind in (addresses.PARAMETERS, addresses.GRAPH)}
    assert read == {addresses.Parameters(0, 1), addresses.Graph(0, 1)}


def test_blocks_of_split_components_are_those_of_the_whole() -> None:
    """Donors lie in other blocks, one of them is drawn twice, and variances may be shared."""
    splits = Splits(np.array([1, 4, 7], np.int32), np.array([5, 2, 5], np.int32))
    weights = np.where(np.isin(np.arange(8), splits.components), 0.0, MIXTURE.weights)
    for noise in ("component", "shared"):
        settings = replace(SETTINGS, empty_components="split", noise=noise)
        read = []
        for blocks in (BLOCKS, ((0, 8),)):
            context = context_of(blocks, replace(MIXTURE, weights=weights / weights.sum()))
            if noise == "shared":
                context.storage.write(addresses.SharedNoise(0), {"noise_variances": np.ones(9, np.float32)})
                for block in range(len(blocks)):
                    arrays = context.storage.read(addresses.Parameters(0, block))
                    rest = {name: array.view() for name, array in arrays.items() if name != "noise_variances"}
                    context.storage.write(addresses.Parameters(0, block), rest)
            context.storage.write(addresses.SplitParameters(0), splits.arrays())
            context.storage.write(addresses.SplitGraph(0), splits.arrays())
            version = (context.storage, settings, context.plan)
            read.append((read_mixture(*version, (9,), 0), read_graph(*version, 0)))
        (mixture, graph), (whole, whole_graph) = read
        for name in PARAMETER_NAMES:
            np.testing.assert_array_equal(getattr(mixture, name), getattr(whole, name))
        np.testing.assert_array_equal(graph.neighbors, whole_graph.neighbors)
        assert mixture.weights[5] == mixture.weights[7] == weights[5] / weights.sum() / 4
