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
# Features come in runs (a cache line of uint8, whole vectors of any dtype and register), of which a part has one in
# each period of `N_PARTS`. Lines in equal distances share few cache sets, so it is the next one after each `N_PARTS`
# periods.
RUN_FEATURES = 64
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
    part: Any,
) -> Any:
    """As `project`, over the features of one part alone.

    Parameters
    ----------
    rows, ids, first, packed, factors, tile, out_sums
        As in `project`.
    start, stop : int
        Range of features; both are multiples of a period, or `stop` is D.
    part : int
        Which of the `N_PARTS` parts.
    """
    signature = types.void(rows, ids, first, packed, start, stop, factors, tile, out_sums, part)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        kinds = (rows, ids, packed, out_sums)
        _Projection(context, builder, kinds, arguments, len(factors), len(tile)).emit_part(arguments[9])
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

    def emit(self) -> None:
        """Write the loops: whole cache lines of rows, the vectors that are left, then single features."""
        # A turn of the first loop reads one cache line of each row: 64 features of uint8, 16 of float32.
        item_bytes = max(1, self.stored.bitwidth // 8)
        unrolled = max(1, vector.CACHE_LINE_BYTES // (self.lanes * item_bytes))
        line = vector.Loop(self.builder, self.start, self.stop, self.lanes * unrolled, self._zeros(self.lanes))
        for row in self.next_rows:  # one hint per cache line and row: that is what a turn reads of each row
            vector.prefetch(self.builder, row, line.index)
        sums = line.close(self._steps(line.index, line.values, unrolled))
        self._emit_rest(line.index, self.stop, sums)

    def emit_part(self, part: Any) -> None:
        """Write the loops for a part of the features: whole periods, then what the last one has of the part."""
        builder = self.builder
        period = vector.Loop(builder, self.start, self.stop, RUN_FEATURES * N_PARTS, self._zeros(self.lanes))
        run = self._run_of_part(period.index, part)
        line_features = vector.CACHE_LINE_BYTES // max(1, self.stored.bitwidth // 8)
        for feature in range(0, RUN_FEATURES, line_features):
            for row in self.next_rows:
                vector.prefetch(builder, row, builder.add(run, vector.INT64(feature)))
        # One vector in each turn: when the addresses of a whole run are computed at once, LLVM spills accumulators.
        end = builder.add(run, vector.INT64(RUN_FEATURES))
        single = vector.Loop(builder, run, end, self.lanes, period.values)
        sums = single.close(self._steps(single.index, single.values, 1))
        sums = period.close(sums)
        run = self._run_of_part(period.index, part)
        end = builder.add(run, vector.INT64(RUN_FEATURES))
        self._emit_rest(run, builder.select(builder.icmp_signed("<", end, self.stop), end, self.stop), sums)

    def _run_of_part(self, first: Any, part: Any) -> Any:
        """First feature of the run that a part has in the period that begins at feature `first`."""
        builder, n_features = self.builder, RUN_FEATURES * N_PARTS * N_PARTS
        turned = builder.add(builder.udiv(first, vector.INT64(n_features)), part)
        turn = builder.and_(turned, vector.INT64(N_PARTS - 1))
        return builder.add(first, builder.mul(turn, vector.INT64(RUN_FEATURES)))

    def _zeros(self, lanes: int) -> list[Any]:
        return [vector.zero(vector.as_vector(self.work, lanes))] * (self.tile * (self.factors + 1))

    def _steps(self, first: Any, values: list[Any], n_vectors: int) -> list[Any]:
        """Add some vectors of features, one after the other."""
        sums = list(values)
        for k in range(n_vectors):
            sums = self._step(self.builder.add(first, vector.INT64(k * self.lanes)), sums, self.lanes)
        return sums

    def _emit_rest(self, first: Any, stop: Any, sums: list[Any]) -> None:
        """Write the vectors of ``first:stop``, add the sums to those in memory, then single features."""
        builder = self.builder
        single = vector.Loop(builder, first, stop, self.lanes, sums)
        sums = single.close(self._step(single.index, list(single.values), self.lanes))
        # Accumulators lie row by row, H + 1 each, and so do the sums: whole registers of sums are added at once.
        origin = builder.mul(self.first, vector.INT64(self.factors + 1))
        for k, part in enumerate(sums_of_lanes(builder, sums)):
            vector.add_to_doubles(builder, part, self.sums, builder.add(origin, vector.INT64(k * self.lanes)))
        # Row values beyond D belong to the next row, so the last features are not read as a vector.
        with builder.if_then(builder.icmp_signed("<", single.index, stop), likely=False):
            scalar = vector.Loop(builder, single.index, stop, 1, self._zeros(1))
            for k, part in enumerate(scalar.close(self._step(scalar.index, list(scalar.values), 1))):
                vector.add_to_doubles(builder, part, self.sums, builder.add(origin, vector.INT64(k)))
