"""Stateless random numbers: every draw is a hash of (seed, stream, iteration, row or component, draw).

No generator object exists, so a draw does not depend on which worker makes it, in what order, or how often.
The mixing function is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), applied once per key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.compile import inline, kernel

# Streams: draws for different purposes never share a key. New ones go to the end: a number is part of every key, and
# the draws of existing runs must stay what they are.
SEARCH, POSTERIOR, NEIGHBORS, LOADINGS, SEED_ROWS, CHAINS, RESTING, SPLITS, SAMPLE, GREEDY, DRAWN_ROWS = range(1, 12)


@inline
def _mix(value: Any) -> Any:
    """One step of SplitMix64: a bijection of 64 bits in which each input bit flips about half of the output bits."""
    # Constants are uint64 as well: Numba makes float64 of uint64 and int64 together.
    value = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@inline
def draw_bits(seed: Any, stream: Any, iteration: Any, item: Any, draw: Any) -> Any:
    """64 random bits of one draw.

    Parameters
    ----------
    seed : int
        Seed of the run, 0 to 2⁶³ − 1.
    stream : int
        Purpose of the draw, one of the constants of this module.
    iteration : int
        Number of the pass, attempt or version.
    item : int
        Global number of the row or component.
    draw : int
        Number of the draw for this item.

    Returns
    -------
    uint64
        Uniform, and independent of the bits of any other key.
    """
    value = _mix(np.uint64(seed) ^ (np.uint64(stream) << np.uint64(56)))
    # One mix per part of the key: parts that were added up first would collide (item 1, draw 0 with item 0, draw 1).
    value = _mix(value ^ np.uint64(iteration))
    value = _mix(value ^ np.uint64(item))
    return _mix(value ^ np.uint64(draw))


@inline
def draw_integer(seed: Any, stream: Any, iteration: Any, item: Any, draw: Any, below: Any) -> Any:
    """A uniform integer in [0, below), with a bias of less than 2⁻³².

    Parameters
    ----------
    seed, stream, iteration, item, draw : int
        The key, see `draw_bits`.
    below : int
        Upper end, 1 to 2³².

    Returns
    -------
    int64
        The integer.
    """
    # The upper half of `below` times 32 random bits: no division, and one draw is always enough.
    high = draw_bits(seed, stream, iteration, item, draw) >> np.uint64(32)
    return np.int64((high * np.uint64(below)) >> np.uint64(32))


@inline
def draw_uniform(seed: Any, stream: Any, iteration: Any, item: Any, draw: Any) -> Any:
    """A uniform number in [0, 1).

    Parameters
    ----------
    seed, stream, iteration, item, draw : int
        The key, see `draw_bits`.

    Returns
    -------
    float64
        The number.
    """
    # 53 bits are what a float64 holds; more would round some draws up to 1.
    bits = draw_bits(seed, stream, iteration, item, draw) >> np.uint64(11)
    return np.float64(bits) * (1.0 / 9007199254740992.0)


@kernel
def uniforms(seed: Any, stream: Any, iteration: Any, first: Any, out_values: Any) -> None:
    """Uniform numbers in [0, 1).

    Parameters
    ----------
    seed, stream, iteration : int
        The key, see `draw_bits`.
    first : int
        Global number of the item of row 0.
    out_values : (n, k) float64, out
        Entry (i, k) is draw k of item ``first + i``.
    """
    for i in range(out_values.shape[0]):
        for k in range(out_values.shape[1]):
            out_values[i, k] = draw_uniform(seed, stream, iteration, first + i, k)


@kernel
def normals(seed: Any, stream: Any, iteration: Any, first: Any, out_values: Any) -> None:
    """Standard normal numbers (Box and Muller, 1958), two from each pair of uniform ones.

    Parameters
    ----------
    seed, stream, iteration : int
        The key, see `draw_bits`.
    first : int
        Global number of the item of row 0.
    out_values : (n, k) float64, out
        Entries (i, 2j) and (i, 2j + 1) come from draws 2j and 2j + 1 of item ``first + i``; none exceeds 8.6.
    """
    for i in range(out_values.shape[0]):
        for k in range(0, out_values.shape[1], 2):
            # 1 − u is never 0, and its logarithm is finite.
            radius = np.sqrt(-2.0 * np.log(1.0 - draw_uniform(seed, stream, iteration, first + i, k)))
            # The key of the second draw is used even if its number falls beyond the end: more columns leave earlier
            # ones as they are.
            angle = 2.0 * np.pi * draw_uniform(seed, stream, iteration, first + i, k + 1)
            out_values[i, k] = radius * np.cos(angle)
            if k + 1 < out_values.shape[1]:
                out_values[i, k + 1] = radius * np.sin(angle)


@kernel
def distinct_integers(seed: Any, stream: Any, iteration: Any, first: Any, below: Any, out_ids: Any) -> None:
    """Fill up each row with distinct integers in [0, below).

    Parameters
    ----------
    seed, stream, iteration : int
        The key, see `draw_bits`.
    first : int
        Global number of the item of row 0.
    below : int
        Upper end, at least the number of columns (else the kernel never returns).
    out_ids : (n, k) int32, in and out
        Entries of −1 are drawn; others are kept, and never repeated in their row.
    """
    for i in range(out_ids.shape[0]):
        draw = 0
        for k in range(out_ids.shape[1]):
            # Rejection: rows are short beside `below`, or short enough for a few draws more.
            while out_ids[i, k] < 0:
                # Draws are numbered through the row, also the rejected ones: no key serves twice.
                value = draw_integer(seed, stream, iteration, first + i, draw, below)
                draw += 1
                taken = False
                for j in range(out_ids.shape[1]):
                    taken = taken or out_ids[i, j] == value
                if not taken:
                    out_ids[i, k] = value
