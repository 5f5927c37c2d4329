"""Explicit vector code: the few LLVM operations that the hot loops are generated from.

Numba leaves the choice of registers to LLVM's loop vectoriser, which gives up (or spills) on a loop that feeds a dozen
accumulators at once. Here the vectors are written out, so that the tile of a kernel is a formula of the number of
factors and of the registers of this processor, and sums have one fixed order without any fast-math flag.
May import: numpy, numba, llvmlite.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target

INT64 = ir.IntType(64)
INT32 = ir.IntType(32)
DOUBLE = ir.DoubleType()

# What Numba compiles for in this process: triple, name of the processor, its features. It is this processor, unless
# NUMBA_CPU_NAME and NUMBA_CPU_FEATURES name another one; registers must be those of the same.
TRIPLE, CPU_NAME, CPU_FEATURES = (str(part) for part in cpu_target.target_context.codegen().magic_tuple())


def _vector_unit(triple: str, features: str) -> tuple[int, int]:
    """Width in bytes and number of the vector registers of a processor."""
    enabled = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
    if "avx512f" in enabled:
        return 64, 32
    if enabled & {"avx", "avx2"}:  # the second one has the first one, and a list that is given may leave it out
        return 32, 16
    return 16, 32 if "aarch64" in triple or "arm64" in triple else 16


VECTOR_BYTES, VECTOR_REGISTERS = _vector_unit(TRIPLE, CPU_FEATURES)
# Sums that LLVM may reorder (`compile.reduction`) multiply and add at once where the processor can.
HAS_FMA = "+fma" in CPU_FEATURES.split(",") or not TRIPLE.startswith("x86_64")
CACHE_LINE_BYTES = 64


def float_type(scalar: types.Float) -> ir.Type:
    """LLVM type of a Numba float (32 or 64 bits)."""
    return DOUBLE if scalar.bitwidth == 64 else ir.FloatType()


def lanes_of(bits: int) -> int:
    """Number of values of `bits` bits in one vector register."""
    return VECTOR_BYTES * 8 // bits


def as_vector(scalar: ir.Type, lanes: int) -> ir.Type:
    """Type of `lanes` values; for one lane it is the scalar's, as LLVM handles vectors of one worse."""
    return scalar if lanes == 1 else ir.VectorType(scalar, lanes)


def zero(kind: ir.Type) -> ir.Constant:
    """Zero of a scalar or vector type."""
    return ir.Constant(kind, [0.0] * kind.count if isinstance(kind, ir.VectorType) else 0.0)


def load(builder: ir.IRBuilder, base: Any, index: Any, scalar: ir.Type, lanes: int) -> Any:
    """Load consecutive values.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
        Where the instructions go, as in all functions of this module.
    base : pointer to `scalar`
        Start of the array.
    index : int64 value
        Position of the first value.
    scalar : llvmlite.ir.Type
        Type of one value.
    lanes : int
        Number of values; 1 gives a scalar.

    Returns
    -------
    value of type ``as_vector(scalar, lanes)``
        The values as they are stored.
    """
    address = builder.bitcast(builder.gep(base, [index]), as_vector(scalar, lanes).as_pointer())
    value = builder.load(address)
    # Rows begin wherever the ones before them end, so that LLVM's default alignment of a vector would be a promise that
    # faults. Loads that happen to be aligned are as fast without it.
    value.align = 1
    return value


def add_to_doubles(builder: ir.IRBuilder, value: Any, base: Any, index: Any) -> None:
    """``base[index:index + lanes] += value``, in float64.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    value : float or vector of floats, 32 or 64 bits
        What is added; widened first.
    base : pointer to double
    index : int64 value
        Position of the first entry.
    """
    # Lanes are added side by side: no order of a sum is chosen here.
    lanes = value.type.count if isinstance(value.type, ir.VectorType) else 1
    wide = value if "double" in str(value.type) else builder.fpext(value, as_vector(DOUBLE, lanes))
    total = builder.fadd(load(builder, base, index, DOUBLE, lanes), wide)
    builder.store(total, builder.bitcast(builder.gep(base, [index]), total.type.as_pointer())).align = 1


def to_float(builder: ir.IRBuilder, value: Any, stored: Any, target: ir.Type) -> Any:
    """Convert loaded values to the floats of the kernel, in registers.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    value : scalar or vector
        Values of the stored type.
    stored : numba.types.Integer or numba.types.Float
        Numba's type of them, which knows whether integers are signed.
    target : llvmlite.ir.Type
        float or double.

    Returns
    -------
    scalar or vector of `target`
        Rounded to nearest where `target` is narrower.
    """
    lanes = value.type.count if isinstance(value.type, ir.VectorType) else 1
    goal = as_vector(target, lanes)
    if value.type == goal:
        return value
    # LLVM has one instruction per direction; converting a float to its own width would be an invalid one.
    if isinstance(stored, types.Float):
        narrower = stored.bitwidth > (64 if target == DOUBLE else 32)
        return builder.fptrunc(value, goal) if narrower or target != DOUBLE else builder.fpext(value, goal)
    if stored.bitwidth < 32:  # small integers take the signed 32-bit conversion, one instruction on every processor
        word = as_vector(INT32, lanes)
        return builder.sitofp(builder.sext(value, word) if stored.signed else builder.zext(value, word), goal)
    return builder.sitofp(value, goal) if stored.signed else builder.uitofp(value, goal)


def fused(builder: ir.IRBuilder, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` with one rounding, for floats or vectors of one type."""
    scalar = a.type.element if isinstance(a.type, ir.VectorType) else a.type
    lanes = f"v{a.type.count}" if isinstance(a.type, ir.VectorType) else ""
    name = f"llvm.fma.{lanes}{'f64' if scalar == DOUBLE else 'f32'}"
    # An intrinsic is declared once per module; a second declaration of the name would be an error.
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(a.type, [a.type] * 3), name)
    return builder.call(function, [a, b, c])


def splat(builder: ir.IRBuilder, value: Any, lanes: int) -> Any:
    """The scalar `value` in each of `lanes` lanes."""
    if lanes == 1:
        return value
    # LLVM makes one broadcast instruction of an insertion and a shuffle.
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, INT32(0))
    return shuffle(builder, one, one, [0] * lanes)


def prefetch(builder: ir.IRBuilder, base: Any, index: Any, locality: int = 3) -> None:
    """Ask for the cache line that holds an element, for reading.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    base : pointer
    index : int64 value
        The element is ``base[index]``. An address outside the array does no harm: a hint never faults.
    locality : int
        3 for the first level of the cache, 2 for the second.
    """
    # Arguments of the intrinsic: 0 is a read, the last 1 the data cache (0 would be that of instructions).
    address = builder.bitcast(builder.gep(base, [index]), ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [address.type, INT32, INT32, INT32])
    function = builder.module.globals.get("llvm.prefetch.p0") or ir.Function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(function, [address, INT32(0), INT32(locality), INT32(1)])


def shuffle(builder: ir.IRBuilder, a: Any, b: Any, lanes: list[int]) -> Any:
    """A vector of chosen lanes; those of `b` count on from those of `a`."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT32, len(lanes)), lanes))


class Loop:
    """A counted loop that carries values in registers; what is emitted until `close` is its body.

    Only whole steps are taken: after the loop `index` is the first position that a whole step would pass.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    start, stop : int64 values
        Range of the index.
    step : int
        Added to the index with each turn.
    carried : list of values
        What the first turn gets.

    Attributes
    ----------
    index : int64 value
        Position of the current turn.
    values : list of values
        Carried values of the current turn.
    """

    def __init__(self, builder: ir.IRBuilder, start: Any, stop: Any, step: int, carried: list[Any]) -> None:
        self.builder, self.step = builder, step
        # Values that differ from turn to turn are phi nodes, so that LLVM keeps them in registers, never in memory.
        before = builder.block
        self.head = builder.append_basic_block("loop.head")
        body = builder.append_basic_block("loop.body")
        self.end = builder.append_basic_block("loop.end")
        builder.branch(self.head)
        builder.position_at_end(self.head)
        self.index = builder.phi(INT64)
        self.index.add_incoming(start, before)
        self.values = [builder.phi(value.type) for value in carried]
        for phi, value in zip(self.values, carried, strict=True):
            phi.add_incoming(value, before)
        # The condition is checked before the body, so that a loop may have no turn at all.
        inside = builder.icmp_signed("<=", builder.add(self.index, INT64(step)), stop)
        builder.cbranch(inside, body, self.end)
        builder.position_at_end(body)

    def close(self, values: list[Any]) -> list[Any]:
        """End the body.

        Parameters
        ----------
        values : list of values
            What the next turn gets.

        Returns
        -------
        list of values
            What leaves the loop.
        """
        for phi, value in zip(self.values, values, strict=True):
            phi.add_incoming(value, self.builder.block)
        self.index.add_incoming(self.builder.add(self.index, INT64(self.step)), self.builder.block)
        self.builder.branch(self.head)
        self.builder.position_at_end(self.end)
        return self.values
