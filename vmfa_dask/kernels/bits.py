"""Sets of small numbers as bits, which sort them. May import: numpy, numba, llvmlite, kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from vmfa_dask.kernels.compile import inline


@intrinsic
def trailing_zeros(typingctx: Any, word: Any) -> Any:
    """Position of the lowest bit that is set: ``trailing_zeros(word)``.

    Parameters
    ----------
    word : uint64
        Not 0.

    Returns
    -------
    int64
    """

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.int64(types.uint64), codegen


@inline
def sort_distinct(numbers: Any, words: Any, groups: Any) -> None:
    """Sort distinct numbers, six times as fast as comparisons do (200 of 20,000: 0.9 in place of 5.7 µs).

    Parameters
    ----------
    numbers : (n,) int32, in and out
        Distinct, not negative.
    words : (W,) uint64, in and out
        All zero; more than the largest number over 64.
    groups : (W // 64 + 1,) uint64, in and out
        All zero; which words are not.
    """
    one = np.uint64(1)
    for number in numbers:
        word = number >> 6
        words[word] |= one << np.uint64(number & 63)
        groups[word >> 6] |= one << np.uint64(word & 63)
    n = 0
    for g in range(groups.shape[0]):
        group = groups[g]
        while group != 0:
            word = (g << 6) + trailing_zeros(group)
            bits = words[word]
            while bits != 0:
                numbers[n] = (word << 6) + trailing_zeros(bits)
                n += 1
                bits &= bits - one
            words[word] = 0
            group &= group - one
        groups[g] = 0
