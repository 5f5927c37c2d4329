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
    """Store one vector register: ``out_target[position:position + lanes] = source[start:start + lanes]``.

    Called as ``stream_vector(source, start, out_target, position)``; `lanes` is that of the dtype of `out_target`.

    Parameters
    ----------
    source : contiguous float32 or float64 array
        Values, rounded to the dtype of `out_target`.
    start : int
        Position of the first value.
    out_target : contiguous float32 or float64 array, out
    position : int
        Where the first value goes. If this is no multiple of a register in memory, the store is an ordinary one.
    """
    signature = types.void(source, start, out_target, position)
    lanes = vector.lanes_of(out_target.dtype.bitwidth)
    read, written = vector.float_type(source.dtype), vector.float_type(out_target.dtype)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        values = context.make_array(source)(context, builder, arguments[0]).data
        base = context.make_array(out_target)(context, builder, arguments[2]).data
        value = vector.to_float(builder, vector.load(builder, values, arguments[1], read, lanes), source.dtype, written)
        element = builder.gep(base, [arguments[3]])
        offset = builder.and_(builder.ptrtoint(element, vector.INT64), vector.INT64(vector.VECTOR_BYTES - 1))
        address = builder.bitcast(element, value.type.as_pointer())
        # LLVM calls them nontemporal, and wants a single 1 as the metadata that marks the store.
        # Stores past the caches must be aligned. Buffers are; rows within them need not be, nor are arrays of others.
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
    """Let every thread see what was stored: to be called once by each kernel that streams, before it returns.

    Stores past the caches are not ordered with others, so a lock alone would not publish them.
    """

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        # Weaker fences are no instruction at all on x86, where only stores past the caches are weakly ordered.
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@inline
def stream(source: Any, out_target: Any) -> None:
    """``out_target[:] = source``.

    Parameters
    ----------
    source : (m,) float32 or float64, contiguous
        At least as long as `out_target`.
    out_target : (n,) float32 or float64, contiguous, out
        Receives the first n values, rounded to its dtype.
    """
    # Inlined with constant lanes, so that the loop is one load, one conversion and one store per register.
    n = out_target.shape[0]
    lanes = vector.VECTOR_BYTES // out_target.itemsize
    # What does not fill a register at the end is stored one by one, so that nothing behind the target is touched.
    n_in_vectors = n - n % lanes
    for start in range(0, n_in_vectors, lanes):
        stream_vector(source, start, out_target, start)
    for d in range(n_in_vectors, n):
        out_target[d] = source[d]
