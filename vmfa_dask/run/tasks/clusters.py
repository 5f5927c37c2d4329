"""Tasks of k-means+FA: from the clusters of one stage to the factor analyzers of the next, and to the run.

May import: values, em, run.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.em.exhaustive import evaluate_exhaustively
from vmfa_dask.em.rows import working_rows
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.row_source import read_ahead
from vmfa_dask.run.stages import Stage, StageStorage
from vmfa_dask.run.start import Start, fill_components, write_given_start, write_start
from vmfa_dask.runtime.clock import Stopwatch


def begin_analyzers(context: RunContext, clusters: Stage, version: int, analyzers: Stage) -> None:
    """Write version 0 of the factor analyzers: means at the centres of the clusters, the rest as from seeds.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    clusters : Stage
        k-means.
    version : int
        Version of its centres.
    analyzers : Stage
        The factor analyzers.
    """
    means = context.stage(clusters).centers(version).means
    surveyed = context.stage(clusters).storage.read(addresses.RowSurvey())
    stage = context.stage(analyzers)
    stage.storage.write(addresses.RowSurvey(), {name: np.array(array) for name, array in surveyed.items()})
    write_start(stage, np.zeros(0, np.int64), means.astype(np.float64), surveyed["variances"])


def assign_rows(context: RunContext, group: int, clusters: Stage, version: int, analyzers: Stage) -> None:
    """Write the nearest centre of each row of a group, the component that it keeps (paper, eq. voronoi_cells).

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    clusters : Stage
        k-means.
    version : int
        Version of its centres.
    analyzers : Stage
        The factor analyzers.
    """
    stage, watch, (start, stop) = context.stage(clusters), Stopwatch(), context.plan.groups[group]
    nearest = np.empty((stop - start, 1), np.int32)
    with context.cores.exclusive():
        centers, packed = stage.centers(version), stage.packed(version)
        for first, block in read_ahead(context.rows, start, stop, context.plan.block_rows):
            rows = working_rows(block, centers.offset, centers.means.dtype.name)
            tools = (context.cores, stage.buffers, watch)
            evaluated = evaluate_exhaustively(rows, packed, stage.settings.truncation, *tools)
            nearest[first - start : first - start + len(block)] = evaluated.components
    StageStorage(context.storage, analyzers).write(addresses.Posterior(0, group), {"components": nearest})


def take_parameters(context: RunContext, analyzers: Stage, version: int) -> None:
    """Write version 0 of the run: the parameters of the factor analyzers, random neighbours.

    A cluster without rows counts as one row, so that the run itself decides whether to drop it.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    analyzers : Stage
        The factor analyzers.
    version : int
        Version of their parameters.
    """
    stage = context.stage(analyzers)
    mixture = stage.mixture(version)
    start = Start(mixture.with_every_component_alive(context.plan.n_rows))
    surveyed = {**stage.storage.read(addresses.RowSurvey()), "offset": mixture.offset}
    write_given_start(context.storage, context.settings, context.plan, start, surveyed)


def take_posterior(context: RunContext, group: int, analyzers: Stage, version: int) -> None:
    """Write first K_n of the rows of a group: their cluster, the others uniform and distinct.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    analyzers : Stage
        The factor analyzers.
    version : int
        Version of their parameters.
    """
    clusters = StageStorage(context.storage, analyzers).read(addresses.Posterior(version, group))["components"]
    components = np.full((len(clusters), context.settings.truncation), -1, np.int32)
    components[:, :1] = clusters
    fill_components(context, group, components)
    context.storage.write(addresses.Posterior(0, group), {"components": components})
