"""Sums over the lanes of several vectors at once, the end of every projection. May import: llvmlite, kernels."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from vmfa_dask.kernels.vector import INT32, shuffle, zero


def sums_of_lanes(builder: ir.IRBuilder, vectors: list[Any]) -> list[Any]:
    """The sum over the lanes of each vector.

    Sums of several vectors are folded together (half the lanes of one beside half the lanes of the next), which takes
    a third of the instructions of summing each alone; a joint of 144 features costs as much again without it.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    vectors : list of vectors of one type

    Returns
    -------
    list of vectors of at most one register (a scalar where one sum is left)
        The sums, in the order of `vectors`. Each is a tree: its order depends on the number of lanes alone.
    """
    lanes = vectors[0].type.count
    results = []
    for start in range(0, len(vectors), lanes):
        # Which vector's partial sums each segment of lanes holds, per folded vector; −1 for padding.
        owners = [[k] for k in range(len(vectors[start : start + lanes]))]
        values = list(vectors[start : start + lanes])
        segment = lanes
        while len(values) > 1 or segment > 1:
            half = segment // 2
            # Vectors fold in pairs; zeros stand in for a partner and end in lanes that nobody reads.
            if len(values) % 2 and len(values) > 1:
                values.append(zero(values[0].type))
                owners.append([-1] * len(owners[0]))
            # Lanes of the lower half of each segment; the upper ones are `half` further on.
            first = [origin + lane for origin in range(0, lanes, segment) for lane in range(half)]
            if len(values) == 1:
                # No partner is left: both halves of the result hold the same, which keeps it a full register.
                low, high = first, [lane + half for lane in first]
                values = [
                    builder.fadd(
                        shuffle(builder, values[0], values[0], low + low),
                        shuffle(builder, values[0], values[0], high + high),
                    )
                ]
                owners = [owners[0] * 2]
            else:
                low = first + [lane + lanes for lane in first]
                high = [lane + half for lane in low]
                pairs = list(zip(values[::2], values[1::2], strict=True))
                values = [builder.fadd(shuffle(builder, a, b, low), shuffle(builder, a, b, high)) for a, b in pairs]
                owners = [a + b for a, b in zip(owners[::2], owners[1::2], strict=True)]
            segment = half
        count = min(lanes, len(vectors) - start)
        # Segments are one lane wide by now, in an order that the folding has mixed.
        order = [owners[0].index(k) for k in range(count)]
        results.append(
            builder.extract_element(values[0], INT32(order[0]))
            if count == 1
            else shuffle(builder, values[0], values[0], order)
        )
    return results
