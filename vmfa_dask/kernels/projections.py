"""The inner loop of every log-joint: whitened quadratic form and whitened projections of a few rows at once.

For a component with mean μ, noise variances σ² and whitened projection W = R⁻¹ΛᵀD⁻¹ (H, D), where L = I + ΛᵀD⁻¹Λ = RRᵀ,
a row x with t = x − μ needs Σ t²/σ² and Wt (paper, appendix:EfficientEvaluationMFAs; one projection suffices, because
tᵀΣ⁻¹t = Σ t²/σ² − ‖Wt‖²). Both come from u = t/σ = x/σ − μ/σ, one instruction: Σ u² and (Wσ)u.

Parameters of one component are *packed*: for each vector of features −μ/σ, 1/σ and the H projections Wσ lie together,
``(vectors, H + 2, lanes)``, so that one stream is read (rows of a power of two times 4 KiB would otherwise fall into
the same cache sets) and each value is loaded once for all rows of the tile. May import: numba, llvmlite, kernels.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from vmfa_dask.kernels import vector
from vmfa_dask.kernels.folding import sums_of_lanes

# Registers beside the accumulators: one vector of parameters and the row values in flight.
_SPARE_REGISTERS = 3
# Small H leaves registers for more; but rows that do not fill a tile are projected one at a time.
_MOST_ROWS = 12
# Features of which every `N_PARTS`-th run is a part: a cache line of uint8, whole vectors of any dtype and register.
PART_FEATURES = 64
N_PARTS = 4


def rows_per_tile(n_factors: int) -> int:
    """Number of rows that share one pass over the parameters, from the registers of this processor.

    Parameters
    ----------
    n_factors : int
        H. Each row keeps H + 1 accumulators in registers.

    Returns
    -------
    int
        1 to 12. With more rows LLVM would spill accumulators to the stack in every turn of the loop.
    """
    fitting = (vector.VECTOR_REGISTERS - _SPARE_REGISTERS) // (n_factors + 1)
    return max(1, min(_MOST_ROWS, fitting))


@intrinsic
def project(
    typingctx: Any,
    rows: Any,
    ids: Any,
    first: Any,
    packed: Any,
    start: Any,
    stop: Any,
    factors: Any,
    tile: Any,
    out_sums: Any,
) -> Any:
    """Add quadratic forms and projections of ``len(tile)`` rows over features ``start:stop``.

    Called as ``project(rows, ids, first, packed, start, stop, factors, tile, out_sums)``. Partial sums of one call are
    in the dtype of `packed`.

    Parameters
    ----------
    rows : (n, D), any real dtype
    ids : (m,) int32
        Row numbers, of which ``ids[first:first + len(tile)]`` are taken.
    first : int
        Position of the tile's first row in `ids` and `out_sums`.
    packed : (vectors, H + 2, lanes) float32 or float64
        Parameters of one component.
    start, stop : int
        Range of features; `start` is a multiple of the lanes.
    factors, tile : tuples of lengths H and number of rows
    out_sums : (m, H + 1) float64, in and out
        Σ t²/σ² is added to column 0, Wt to the others.
    """
    signature = types.void(rows, ids, first, packed, start, stop, factors, tile, out_sums)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        _Projection(context, builder, (rows, ids, packed, out_sums), arguments, len(factors), len(tile)).emit()
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def project_part(
    typingctx: Any,
    rows: Any,
    ids: Any,
    first: Any,
    packed: Any,
    start: Any,
    stop: Any,
    factors: Any,
    tile: Any,
    out_sums: Any,
) -> Any:
    """As `project`, over `PART_FEATURES` features from `start` on and every `N_PARTS`-th run of as many behind them.

    Parameters
    ----------
    rows, ids, first, packed, factors, tile, out_sums
        As in `project`.
    start, stop : int
        Range of features; `start` is a multiple of `PART_FEATURES`. What the last run has before `stop` is taken.
    """
    signature = types.void(rows, ids, first, packed, start, stop, factors, tile, out_sums)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        kinds = (rows, ids, packed, out_sums)
        _Projection(context, builder, kinds, arguments, len(factors), len(tile)).emit(PART_FEATURES, N_PARTS)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def prefetch_ahead(typingctx: Any, packed: Any, first: Any, n_lines: Any) -> Any:
    """Ask for cache lines of parameters, into the second level: ``prefetch_ahead(packed, first, n_lines)``.

    Parameters
    ----------
    packed : (vectors, H + 2, lanes) float32 or float64
        Parameters of one component.
    first : int
        Element of the flat `packed` to begin with. It may lie behind the component's own parameters: those of the next
        component follow in memory, and a hint for an address outside the array has no effect.
    n_lines : int
        Number of cache lines.
    """

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        base = context.make_array(packed)(context, builder, arguments[0]).data
        per_line = vector.CACHE_LINE_BYTES * 8 // packed.dtype.bitwidth
        loop = vector.Loop(builder, vector.INT64(0), arguments[2], 1, [])
        index = builder.add(arguments[1], builder.mul(loop.index, vector.INT64(per_line)))
        vector.prefetch(builder, base, index, locality=2)
        loop.close([])
        return context.get_dummy_value()

    return types.void(packed, first, n_lines), codegen


class _Projection:
    """Writes the code of one `project`: vectors per cache line, single vectors, then single features."""

    def __init__(
        self, context: Any, builder: ir.IRBuilder, array_types: Any, arguments: Any, factors: int, tile: int
    ) -> None:
        # Positions of rows, ids, packed and out_sums among the arguments of `project`.
        rows, ids, packed, sums = (
            context.make_array(array_type)(context, builder, arguments[k])
            for array_type, k in zip(array_types, (0, 1, 3, 8), strict=True)
        )
        self.builder, self.factors, self.tile = builder, factors, tile
        self.first, self.start, self.stop = arguments[2], arguments[4], arguments[5]
        self.stored = array_types[0].dtype
        self.stored_type = context.get_value_type(self.stored)
        self.bits = array_types[2].dtype.bitwidth
        self.work = vector.float_type(array_types[2].dtype)
        self.lanes = vector.lanes_of(self.bits)
        self.packed, self.sums = packed.data, sums.data
        width = cgutils.unpack_tuple(builder, rows.shape)[1]
        count = cgutils.unpack_tuple(builder, ids.shape)[0]
        self.rows = [self._row(rows, ids, width, builder.add(self.first, vector.INT64(k))) for k in range(tile)]
        # While this tile is computed the rows of the next one are fetched: they lie all over the row block. Beyond the
        # last row there is no number to look up, so the last one stands in.
        following = [builder.add(self.first, vector.INT64(tile + k)) for k in range(tile)]
        last = builder.sub(count, vector.INT64(1))
        following = [builder.select(builder.icmp_signed("<", k, count), k, last) for k in following]
        self.next_rows = [self._row(rows, ids, width, k) for k in following]

    def _row(self, rows: Any, ids: Any, width: Any, position: Any) -> Any:
        """Address of the row whose number is at `position` of `ids`."""
        number = self.builder.sext(self.builder.load(self.builder.gep(ids.data, [position])), vector.INT64)
        return self.builder.gep(rows.data, [self.builder.mul(number, width)])

    def _parameters(self, feature: Any, lanes: int) -> Any:
        """Address of the packed parameters of one feature, which begins a vector where `lanes` is above 1."""
        size = vector.INT64(self.factors + 2)
        if lanes > 1:
            # A vector of features begins at feature · (H + 2): (feature / lanes) vectors of (H + 2) · lanes values.
            return self.builder.gep(self.packed, [self.builder.mul(feature, size)])
        lane = self.builder.and_(feature, vector.INT64(self.lanes - 1))  # the remainder: lanes are a power of two
        origin = self.builder.mul(self.builder.sub(feature, lane), size)
        return self.builder.gep(self.packed, [self.builder.add(origin, lane)])

    def _step(self, feature: Any, sums: list[Any], lanes: int) -> list[Any]:
        """Add one vector (or one feature) of every row of the tile; returns the new accumulators."""
        builder, stride = self.builder, self.factors + 1
        address = self._parameters(feature, lanes)

        def parameter(kind: int) -> Any:
            return vector.load(builder, address, vector.INT64(kind * self.lanes), self.work, lanes)

        # Parameters are loaded once for all rows; each row's value is loaded and converted once for all factors.
        shift, scale = parameter(0), parameter(1)
        # u = x/σ − μ/σ has one rounding; t = x − μ first would take an instruction more.
        whitened = []
        for k, row in enumerate(self.rows):
            value = vector.load(builder, row, feature, self.stored_type, lanes)
            u = vector.fused(builder, vector.to_float(builder, value, self.stored, self.work), scale, shift)
            sums[k * stride] = vector.fused(builder, u, u, sums[k * stride])
            whitened.append(u)
        for h in range(self.factors):
            projection = parameter(2 + h)
            for k, u in enumerate(whitened):
                sums[k * stride + 1 + h] = vector.fused(builder, u, projection, sums[k * stride + 1 + h])
        return sums

    def emit(self, run: int | None = None, every: int = 1) -> None:
        """Write the loops: whole cache lines of rows, the vectors that are left, then single features.

        With `run`, a turn of the first loop reads as many features, and leaves out all but every `every`-th run.
        """
        builder, count = self.builder, self.tile * (self.factors + 1)
        # A turn of the first loop reads one cache line of each row: 64 features of uint8, 16 of float32.
        line_features = vector.CACHE_LINE_BYTES // max(1, self.stored.bitwidth // 8)
        unrolled = max(1, (run or line_features) // self.lanes)
        zeros = [vector.zero(vector.as_vector(self.work, self.lanes))] * count
        step, end = self.lanes * unrolled * every, self.stop
        if every > 1:  # the last run may be whole where what would be left out behind it is not
            end = builder.add(end, vector.INT64(step - self.lanes * unrolled))
        line = vector.Loop(builder, self.start, end, step, zeros)
        sums = list(line.values)
        # One hint per cache line and row: that is what a turn reads of each row.
        for first in range(0, self.lanes * unrolled, max(line_features, self.lanes)):
            position = builder.add(line.index, vector.INT64(first)) if first else line.index
            for row in self.next_rows:
                vector.prefetch(builder, row, position)
        for k in range(unrolled):
            sums = self._step(builder.add(line.index, vector.INT64(k * self.lanes)), sums, self.lanes)
        sums = line.close(sums)
        single = vector.Loop(builder, line.index, self.stop, self.lanes, sums)
        sums = single.close(self._step(single.index, list(single.values), self.lanes))
        # Accumulators lie row by row, H + 1 each, and so do the sums: whole registers of sums are added at once.
        origin = builder.mul(self.first, vector.INT64(self.factors + 1))
        for k, part in enumerate(sums_of_lanes(builder, sums)):
            vector.add_to_doubles(builder, part, self.sums, builder.add(origin, vector.INT64(k * self.lanes)))
        # Row values beyond D belong to the next row, so the last features are not read as a vector.
        with builder.if_then(builder.icmp_signed("<", single.index, self.stop), likely=False):
            scalar = vector.Loop(builder, single.index, self.stop, 1, [vector.zero(self.work)] * count)
            for k, part in enumerate(scalar.close(self._step(scalar.index, list(scalar.values), 1))):
                vector.add_to_doubles(builder, part, self.sums, builder.add(origin, vector.INT64(k)))
