"""Stores that leave the caches alone, for arrays as large as the model: they are read again only after all of it.

An ordinary store first reads the line that it is about to fill: a third of what the M-step and the packing of
parameters move through memory. May import: numba, llvmlite, kernels.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from vmfa_dask.kernels import vector
from vmfa_dask.kernels.compile import inline


@intrinsic
def stream_vector(typingctx: Any, source: Any, start: Any, out_target: Any, position: Any) -> Any:
    """One vector register of `out_target`: ``out_target[position:position + lanes] = source[start:start + lanes]``.

    source, out_target : contiguous float32 or float64; values are rounded to the dtype of `out_target`, whose vector
    registers hold `lanes` of them. Where the place does not begin at a multiple of a register, the store is ordinary.
    """
    signature = types.void(source, start, out_target, position)
    lanes = vector.lanes_of(out_target.dtype.bitwidth)
    read, written = vector.float_type(source.dtype), vector.float_type(out_target.dtype)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        given = context.make_array(source)(context, builder, arguments[0]).data
        base = context.make_array(out_target)(context, builder, arguments[2]).data
        value = vector.to_float(builder, vector.load(builder, given, arguments[1], read, lanes), source.dtype, written)
        place = builder.gep(base, [arguments[3]])
        offset = builder.and_(builder.ptrtoint(place, vector.INT64), vector.INT64(vector.VECTOR_BYTES - 1))
        address = builder.bitcast(place, value.type.as_pointer())
        with builder.if_else(builder.icmp_unsigned("==", offset, vector.INT64(0)), likely=True) as (aligned, other):
            with aligned:
                store = builder.store(value, address, align=vector.VECTOR_BYTES)
                store.set_metadata("nontemporal", builder.module.add_metadata([vector.INT32(1)]))
            with other:
                builder.store(value, address, align=1)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def finish_streams(typingctx: Any) -> Any:
    """Let every thread see what was stored: to be called once by each kernel that streams, before it returns."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@inline
def stream(source: Any, out_target: Any) -> None:
    """``out_target[:] = source`` for contiguous vectors of floats."""
    n = out_target.shape[0]
    lanes = vector.VECTOR_BYTES // out_target.itemsize
    whole = n - n % lanes
    for start in range(0, whole, lanes):
        stream_vector(source, start, out_target, start)
    for d in range(whole, n):
        out_target[d] = source[d]
