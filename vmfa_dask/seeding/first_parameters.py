"""First parameters and neighbours of components, from their seeds. May import: values, kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.kernels import random
from vmfa_dask.values import Float64, Int32


def first_parameters(
    seeds: Float64,
    first: int,
    n_components: int,
    n_factors: int,
    variances: Float64,
    scales: Float64,
    random_state: int,
) -> dict[str, NDArray[Any]]:
    """Parameters of B components: means at the seeds, equal variances, loadings uniform in [0, 1).

    Parameters
    ----------
    seeds : (B, D) float64 array
        Seeds, relative to the offset of the run.
    first : int
        Number of the first of these components, of which the draws are a hash.
    n_components, n_factors : int
        C and H.
    variances : (D,) float32 or float64 array
        First noise variances of every component; its dtype is that of the parameters.
    scales : (D,) float64 array
        Units of the features, in which loadings are drawn.
    random_state : int
        Seed of the run.

    Returns
    -------
    dict of arrays
        `weights` (B,), `means` (B, D), `loadings` (B, H, D) and `noise_variances` (B, D).
    """
    n, d = seeds.shape
    loadings = np.empty((n, n_factors * d))
    random.uniforms(random_state, random.LOADINGS, 0, first, loadings)
    return {
        "weights": np.full(n, 1.0 / n_components),
        "means": seeds.astype(variances.dtype),
        "loadings": (loadings.reshape(n, n_factors, d) * scales).astype(variances.dtype),
        "noise_variances": np.tile(variances, (n, 1)),
    }


def random_neighbors(start: int, stop: int, n_components: int, size: int, random_state: int) -> Int32:
    """g_c of components ``start:stop``: the component itself, the others uniform and distinct.

    Parameters
    ----------
    start, stop : int
        A range of components.
    n_components, size : int
        C and G.
    random_state : int
        Seed of the run.

    Returns
    -------
    (stop − start, G) int32 array
    """
    neighbors = np.full((stop - start, size), -1, np.int32)
    neighbors[:, 0] = np.arange(start, stop)
    random.distinct_integers(random_state, random.NEIGHBORS, 0, start, n_components, neighbors)
    return neighbors
