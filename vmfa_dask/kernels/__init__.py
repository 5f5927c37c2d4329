"""Compiled loops on bare arrays and named tuples of them. May import: numpy, numba, llvmlite.

Kernels check nothing and allocate little: shapes and dtypes are the caller's promise, and callers pass arrays that are
C-contiguous. A kernel writes to the arguments whose names begin with ``out`` (and to `next_slot`, a cursor), and
threads share its work by calling it with disjoint ranges. `compile` says how all of them are compiled, `arguments`
which arrays they take together.

Vocabulary
----------
n, D, C, H
    Rows of a row block, features, components, factors.
C', G, S
    Components kept per row, neighbours per component, most candidates per row (at most C'G and the random ones).
J
    Joints of all pairs of a row and one of its candidates.
rows : (n, D), any real dtype
    A row block as it is stored. Values become floats in registers, so ``uint8`` rows cost a byte of memory traffic.
ids : (m,) int32
    Numbers of rows within their block.
first, last
    The half-open range ``first:last`` of rows, components or features that one call computes.
members : (J,) int32, indptr : (C + 1,) int64
    Rows regrouped by component, as in a sparse matrix by rows: component c owns ``members[indptr[c]:indptr[c + 1]]``.
    Its parameters are then loaded once for all rows that ask for it.
candidates : (n, S) int32, sizes : (n,) int32, slots : (n, S) int32 or int64
    Search spaces. The first ``sizes[i]`` entries of row i count, and ``slots[i, k]`` is where `members` (and every
    array that runs along it) holds the pair of row i and ``candidates[i, k]``.
lanes
    Values that one vector register holds: 8 of float32 and 4 of float64 with AVX2.
packed : (C, vectors, H + 2, lanes), float32 or float64
    Parameters in the order in which the inner loop reads them: for each vector of features −μ/σ, 1/σ and the H rows of
    Wσ follow each other. Features beyond D are zero. `projections` has the formulas.
factors, tile
    Tuples whose *lengths* are H and the number of rows in a register tile: rows that share one load of the packed
    parameters. Lengths of tuples are types to Numba, so each combination is compiled into code of its own.
precise_slot : (C,) int32, packed_precise : (P, vectors, H + 2, lanes) float64
    Index into `packed_precise` of the components that float32 cannot serve; −1 for all others.
sums : (m, H + 1) float64
    What a joint is made of: Σ t²/σ² in column 0 and the whitened projections Wt in the others.
"""
