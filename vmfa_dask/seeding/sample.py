"""A sample of the rows: one row at a hashed place in each of equal stretches. May import: kernels, values."""

from __future__ import annotations

import numpy as np

from vmfa_dask.kernels import random
from vmfa_dask.values import Int64


def sampled_rows(n_rows: int, n_sampled: int, seed: int) -> Int64:
    """Row numbers of a sample.

    Parameters
    ----------
    n_rows, n_sampled : int
        Rows in all, and in the sample.
    seed : int
        Of which the draws are a hash.

    Returns
    -------
    (n_sampled,) int64 array
        Ascending; all rows where there are no more.
    """
    if n_sampled >= n_rows:
        return np.arange(n_rows)
    draws = np.empty((n_sampled, 1))
    random.uniforms(seed, random.SAMPLE, 0, 0, draws)
    edges = n_rows * np.arange(n_sampled + 1) // n_sampled
    return edges[:-1] + (draws[:, 0] * np.diff(edges)).astype(np.int64)
