"""Stateless random numbers: every draw is a hash of (seed, iteration, row or component, draw).

No generator object exists, so a draw does not depend on which worker makes it, in what order, or how often.
The mixing function is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), applied once per key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.compile import inline, kernel

# Streams: draws for different purposes never share a key.
SEARCH, POSTERIOR, NEIGHBORS, LOADINGS, SEED_ROWS, CHAINS, RESTING, SPLITS, SAMPLE, GREEDY = range(1, 11)


@inline
def _mix(value: Any) -> Any:
    value = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@inline
def draw_bits(seed: Any, stream: Any, iteration: Any, item: Any, draw: Any) -> Any:
    """64 random bits of one draw."""
    value = _mix(np.uint64(seed) ^ (np.uint64(stream) << np.uint64(56)))
    value = _mix(value ^ np.uint64(iteration))
    value = _mix(value ^ np.uint64(item))
    return _mix(value ^ np.uint64(draw))


@inline
def draw_integer(seed: Any, stream: Any, iteration: Any, item: Any, draw: Any, below: Any) -> Any:
    """Uniform integer in [0, below), below <= 2³² (bias below 2⁻³²)."""
    high = draw_bits(seed, stream, iteration, item, draw) >> np.uint64(32)
    return np.int64((high * np.uint64(below)) >> np.uint64(32))


@kernel
def uniforms(seed: Any, stream: Any, iteration: Any, first: Any, out_values: Any) -> None:
    """Uniform numbers in [0, 1) of items ``first + i``, draw k, into out_values (n, k) float64."""
    for i in range(out_values.shape[0]):
        for k in range(out_values.shape[1]):
            bits = draw_bits(seed, stream, iteration, first + i, k) >> np.uint64(11)
            out_values[i, k] = np.float64(bits) * (1.0 / 9007199254740992.0)


@kernel
def distinct_integers(seed: Any, stream: Any, iteration: Any, first: Any, below: Any, out_ids: Any) -> None:
    """Fill the entries of out_ids (n, k) int32 that are -1 with distinct integers in [0, below), k <= below.

    Row i holds the items of ``first + i``; entries that are already set are kept and never repeated.
    """
    for i in range(out_ids.shape[0]):
        draw = 0
        for k in range(out_ids.shape[1]):
            while out_ids[i, k] < 0:
                value = draw_integer(seed, stream, iteration, first + i, draw, below)
                draw += 1
                known = False
                for j in range(out_ids.shape[1]):
                    known = known or out_ids[i, j] == value
                if not known:
                    out_ids[i, k] = value
