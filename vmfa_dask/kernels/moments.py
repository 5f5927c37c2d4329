"""Responsibility-weighted moments of the rows of each component (paper, appendix:Mstep: N_c, Y_c, E_c and Σ q x²).

Moments are centred on the means of the version that is evaluated, t = x − μ: uncentred ones lose the variance of bright
images to rounding in float32. Sums over at most `ROWS_PER_PART` rows are in the kernel's precision, sums of those parts
in float64. May import: numpy, numba, llvmlite, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from vmfa_dask.kernels import vector
from vmfa_dask.kernels.arguments import MomentSums, PackedParameters, Regrouped
from vmfa_dask.kernels.compile import kernel
from vmfa_dask.kernels.linear_algebra import solve_transposed
from vmfa_dask.kernels.log_joints import project_rows
from vmfa_dask.kernels.streams import finish_streams, stream

# A float32 sum of this many terms keeps five of its seven digits at the least, and float64 sums once per part cost
# next to nothing per row.
ROWS_PER_PART = 256
# Smaller responsibilities count as zero: against N_c near 1 or more they are rounding. On photographs two thirds of the
# kept ones are smaller, and their moments would cost a fifth of an iteration. A component that owns no row (N_c of 1e-4
# and less) is off by more than rounding: its next free energy by 6e-6 relative at N_c = 3e-6.
NEGLIGIBLE = 1e-12


@intrinsic
def accumulate(typingctx: Any, rows: Any, ids: Any, means: Any, weights: Any, factors: Any, out_moments: Any) -> Any:
    """Add the moments of a few rows of one component: ``accumulate(rows, ids, means, weights, factors, out_moments)``.

    Parameters
    ----------
    rows : (n, D), any real dtype
    ids : (m,) int32
        Numbers of the rows.
    means : (D,) float32 or float64
        μ of the component. Its dtype is that of the arithmetic.
    weights : (m, H + 1), dtype of `means`
        q in column 0 and q z_h in the others.
    factors : tuple of length H
    out_moments : (H + 2, D) float64, in and out
        Σ q t², Σ q t and Σ q z_h t are added to its rows.
    """
    signature = types.void(rows, ids, means, weights, factors, out_moments)
    n_factors, stored, work = len(factors), rows.dtype, vector.float_type(means.dtype)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        array_types = (rows, ids, means, weights)
        views = [context.make_array(kind)(context, builder, arguments[k]) for k, kind in enumerate(array_types)]
        moments = context.make_array(out_moments)(context, builder, arguments[5])
        width = cgutils.unpack_tuple(builder, views[0].shape)[1]
        count = cgutils.unpack_tuple(builder, views[1].shape)[0]
        stored_type = context.get_value_type(stored)

        def features(first: Any, lanes: int) -> Any:
            """Emit the loop over features in steps of `lanes`; inside it the rows pass through the accumulators.

            Features outside, so that H + 2 accumulators fit the registers and each sum is written once per call.
            """
            outer = vector.Loop(builder, first, width, lanes, [])
            mean = vector.load(builder, views[2].data, outer.index, work, lanes)
            zeros = [vector.zero(vector.as_vector(work, lanes))] * (n_factors + 2)
            inner = vector.Loop(builder, vector.INT64(0), count, 1, zeros)
            sums = list(inner.values)
            row = builder.sext(builder.load(builder.gep(views[1].data, [inner.index])), vector.INT64)
            base = builder.gep(views[0].data, [builder.mul(row, width)])
            value = vector.load(builder, base, outer.index, stored_type, lanes)
            t = builder.fsub(vector.to_float(builder, value, stored, work), mean)
            origin = builder.mul(inner.index, vector.INT64(n_factors + 1))
            for k in range(n_factors + 1):
                address = builder.gep(views[3].data, [builder.add(origin, vector.INT64(k))])
                weight = vector.splat(builder, builder.load(address), lanes)
                if k == 0:
                    weighted = builder.fmul(weight, t)  # q t serves Σ q t and Σ q t² alike
                    sums[0] = vector.fused(builder, weighted, t, sums[0])
                    sums[1] = builder.fadd(sums[1], weighted)
                else:
                    sums[k + 1] = vector.fused(builder, weight, t, sums[k + 1])
            for k, total in enumerate(inner.close(sums)):
                position = builder.add(builder.mul(vector.INT64(k), width), outer.index)
                vector.add_to_doubles(builder, total, moments.data, position)
            outer.close([])
            return outer.index

        first_single = features(vector.INT64(0), vector.lanes_of(means.dtype.bitwidth))
        features(first_single, 1)
        return context.get_dummy_value()

    return signature, codegen


@kernel
def component_moments(
    rows: Any,
    regrouped: Regrouped,
    components: Any,
    responsibilities: Any,
    first: Any,
    last: Any,
    parameters: PackedParameters,
    means: Any,
    n_started: Any,
    out_sums: MomentSums,
) -> None:
    """N_c, Σ q ẑẑᵀ and the moments of some components over their rows (paper, appendix:Mstep).

    Parameters
    ----------
    rows : (n, D), any real dtype
    regrouped : Regrouped
        Rows of each of B components that have a responsibility worth counting, K in all.
    components : (B,) int32
        Numbers of these components.
    responsibilities : (K,) float64
        q of each of them.
    first, last : int
        Range of the B components.
    parameters : PackedParameters
        Factor means are z = R⁻ᵀWt (eq:z_gauss_params).
    means : (C, D) float32 or float64
        μ, on which moments are centred.
    n_started : int
        The first ones of the B components, whose sums are added to what the out arrays hold; others overwrite it.
    out_sums : MomentSums, out
        Of the B components. Without the covariance of the factors; moments are rounded to their dtype.
    """
    members, indptr = regrouped
    packed, _, precise_slot, _, packed_precise, cholesky, factors, tile = parameters
    out_counts, out_factor_moments, out_moments = out_sums
    n_factors = len(factors)
    # Sums of one component stay in the cache: those of all would pass through memory with every row block.
    totals = np.empty(out_moments.shape[1:])
    for b in range(first, last):
        c, add = components[b], b < n_started
        n = indptr[b + 1] - indptr[b]
        if not add:
            out_counts[b] = 0.0
            out_factor_moments[b] = 0.0
        if n == 0:
            if not add:
                out_moments[b] = 0.0
            continue
        # Projections are computed again, not kept from the log-joints: of all candidates of a row only the C' kept ones
        # have a responsibility.
        sums = np.empty((n, n_factors + 1))
        weights = np.empty((n, n_factors + 1), means.dtype)
        ids = members[indptr[b] : indptr[b + 1]]
        if n_factors > 0:  # without factors q alone weights the moments, and no projection is needed
            if precise_slot[c] < 0:
                project_rows(rows, ids, packed[c], factors, tile, sums)
            else:
                project_rows(rows, ids, packed_precise[precise_slot[c]], factors, tile, sums)
        for i in range(n):
            q = responsibilities[indptr[b] + i]
            z = sums[i]
            solve_transposed(cholesky[c], z[1:])  # entry h + 1 turns from (Wt)_h into z_h
            out_counts[b] += q
            for h in range(n_factors):
                for j in range(n_factors):
                    out_factor_moments[b, h, j] += q * z[h + 1] * z[j + 1]
                out_factor_moments[b, h, n_factors] += q * z[h + 1]
                out_factor_moments[b, n_factors, h] += q * z[h + 1]
                weights[i, h + 1] = q * z[h + 1]
            out_factor_moments[b, n_factors, n_factors] += q
            weights[i, 0] = q
        # Only now are large arrays touched, once each: read if they are added to, and written past the caches.
        if add:
            totals[:] = out_moments[b]
        else:
            totals[:] = 0.0
        for start in range(0, n, ROWS_PER_PART):
            stop = min(start + ROWS_PER_PART, n)
            accumulate(rows, ids[start:stop], means[c], weights[start:stop], factors, totals)
        stream(totals.reshape(-1), out_moments[b].reshape(-1))
    finish_streams()
