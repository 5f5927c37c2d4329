"""The values that travel between rooms: frozen, checked when made, their arrays read-only.

Sizes: C components, D features, H factors, C' kept components per row (`truncation`), G neighbours
(`neighborhood`), n rows of a shard. May import: numpy, sizes.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.sizes import Sized

Float64 = NDArray[np.float64]
FloatArray = NDArray[np.floating[Any]]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


def _freeze(value: Any, names: tuple[str, ...]) -> None:
    """Make the named arrays of a frozen dataclass C-contiguous and read-only."""
    for name in names:
        array = np.ascontiguousarray(getattr(value, name))
        if array.flags.writeable:
            array = array.view()
            array.flags.writeable = False
        object.__setattr__(value, name, array)


def _expect(owner: str, name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if found != expected:
        raise ValueError(f"{owner}: {name} has shape {found}, expected {expected}")


def as_floats(array: Any) -> FloatArray:
    """An array of floats of 32 or 64 bits in the byte order of the machine; whole numbers become float64."""
    found = np.asarray(array)
    native = found.dtype.newbyteorder("=")
    return found.astype(native if native in (np.float32, np.float64) else np.float64, copy=False)


def _equal(value: Any, other: Any) -> bool:
    """Whether two values of one class hold the same: their arrays equal shapes and numbers, all else equal values."""
    pairs = ((getattr(value, f.name), getattr(other, f.name)) for f in fields(value) if f.compare)
    return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)


@dataclass(frozen=True, eq=False)
class Mixture(Sized):
    """Parameters of a mixture of factor analyzers, Σ_c π_c N(x; μ_c + offset, Λ_cΛ_cᵀ + diag σ²_c).

    Parameters
    ----------
    weights : (C,) float64, mixing proportions π; 0 marks a component that was dropped
    means : (C, D) float32 or float64, relative to `offset`
    loadings : (C, H, D) same dtype; each factor's row is contiguous
    noise_variances : (C, D) same dtype, positive
    feature_shape : shape of one row as it is stored, e.g. (32, 32, 3); its product is D
    offset : (D,) float64, subtracted from rows in float64 before anything is narrowed; zero unless the data needs it
    version : number of M-steps that led here; of two mixtures it says nothing of whether they are equal

    Raises
    ------
    ValueError
        When shapes disagree or a parameter is outside its range.
    """

    weights: Float64
    means: FloatArray
    loadings: FloatArray
    noise_variances: FloatArray
    feature_shape: tuple[int, ...] = ()
    offset: Float64 = field(default_factory=lambda: np.zeros(0))
    version: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        if self.means.ndim != 2 or self.loadings.ndim != 3:
            raise ValueError(
                f"Mixture: means must be (C, D), found {self.means.shape}, "
                f"and loadings (C, H, D), found {self.loadings.shape}"
            )
        c, d = self.means.shape
        object.__setattr__(self, "feature_shape", tuple(operator.index(n) for n in self.feature_shape) or (d,))
        if self.offset.size == 0:
            object.__setattr__(self, "offset", np.zeros(d))
        _expect("Mixture", "weights", self.weights.shape, (c,))
        _expect("Mixture", "loadings", self.loadings.shape, (c, self.loadings.shape[1], d))
        _expect("Mixture", "noise_variances", self.noise_variances.shape, (c, d))
        _expect("Mixture", "offset", self.offset.shape, (d,))
        if min(self.feature_shape) < 0 or math.prod(self.feature_shape) != d:
            raise ValueError(f"Mixture: feature_shape {self.feature_shape} does not hold the {d} features of means")
        if not np.all(self.noise_variances > 0):
            raise ValueError(f"Mixture: noise_variances must be positive, found {self.noise_variances.min()}")
        if not (np.all(self.weights >= 0) and np.isclose(self.weights.sum(), 1.0, atol=1e-6)):
            raise ValueError(f"Mixture: weights must be >= 0 and sum to 1, found a sum of {self.weights.sum()}")
        dtype = np.result_type(self.means, self.loadings, self.noise_variances)
        for name in ("means", "loadings", "noise_variances"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype))
        for name in ("weights", "offset"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))
        _freeze(self, ("weights", "means", "loadings", "noise_variances", "offset"))

    def checked(self) -> Mixture:
        """The same, once every number of it can be computed with.

        Raises
        ------
        ValueError
            Naming the parameter, the place, what was found and what is expected.
        """
        for name in ("weights", "offset", "means", "loadings", "noise_variances"):
            array = getattr(self, name)
            smallest = float(np.finfo(array.dtype).tiny) if name == "noise_variances" else -np.inf
            # NaN comes out of both; nothing as large as the array is made.
            low, high = (array.min(), array.max()) if array.size else (1.0, 1.0)
            if not (np.isfinite(low) and np.isfinite(high) and low >= smallest):
                place = tuple(np.argwhere(~(np.isfinite(array) & (array >= smallest)))[0].tolist())
                kind = "a finite number" + (f" of at least {smallest:.3g}" if smallest > 0 else "")
                raise ValueError(f"{name}{list(place)} is {array[place]}, expected {kind}")
        return self

    def with_every_component_alive(self, n_rows: int) -> Mixture:
        """The same as the start of a run on `n_rows` rows: a component without rows counts as one row."""
        weights = np.where(self.weights > 0, self.weights, 1.0 / n_rows)
        return replace(self, weights=weights / weights.sum(), version=0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mixture) and _equal(self, other)

    def __hash__(self) -> int:
        return hash((self.means.shape, self.feature_shape, float(self.weights[0]), float(self.means[0, 0])))

    @property
    def n_components(self) -> int:
        """C."""
        return int(self.means.shape[0])

    @property
    def n_features(self) -> int:
        """D."""
        return int(self.means.shape[1])

    @property
    def n_factors(self) -> int:
        """H."""
        return int(self.loadings.shape[1])


@dataclass(frozen=True, eq=False)
class NeighborGraph(Sized):
    """Sets g_c of components similar to c.

    Parameters
    ----------
    neighbors : (C, G) int32, column 0 is the component itself, -1 pads
    """

    neighbors: Int32

    def __post_init__(self) -> None:
        neighbors = np.asarray(self.neighbors, np.int32)
        if neighbors.ndim != 2 or not np.array_equal(neighbors[:, 0], np.arange(len(neighbors))):
            raise ValueError("NeighborGraph: neighbors must be (C, G) with the component itself in column 0")
        if neighbors.min() < -1 or neighbors.max() >= len(neighbors):
            raise ValueError(f"NeighborGraph: entries must lie in -1..{len(neighbors) - 1}")
        object.__setattr__(self, "neighbors", neighbors)
        _freeze(self, ("neighbors",))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NeighborGraph) and _equal(self, other)

    def __hash__(self) -> int:
        return hash(self.neighbors.shape)


@dataclass(frozen=True)
class TruncatedPosterior(Sized):
    """Kept components of some rows; their responsibilities are computed again when they are needed.

    Parameters
    ----------
    components : (n, C') int32, best first, -1 where a row has fewer
    resting : (n,) uint8, rows whose kept components came out of their last search unchanged; None where every row is
        searched in every pass
    """

    components: Int32
    resting: NDArray[np.uint8] | None = None

    def rows(self, part: slice) -> TruncatedPosterior:
        """The posterior of a range of these rows (views)."""
        return TruncatedPosterior(self.components[part], None if self.resting is None else self.resting[part])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is stored, by name."""
        return {"components": self.components, **({} if self.resting is None else {"resting": self.resting})}


@dataclass(frozen=True)
class Divergences(Sized):
    """Sparse tallies of a block of components: Σ log p(x|c) − log p(x|c̃) and its number of terms.

    Parameters
    ----------
    indptr : (B + 1,) int64; entries of the k-th component are ``indptr[k]:indptr[k + 1]``
    ids : (K,) int32, c̃, ascending within a component
    sums : (K,) float64, nats
    counts : (K,) int64
    """

    indptr: Int64
    ids: Int32
    sums: Float64
    counts: Int64

    def block(self, start: int, stop: int) -> Divergences:
        """The tallies of components ``start:stop`` of this block."""
        low, high = int(self.indptr[start]), int(self.indptr[stop])
        indptr = self.indptr[start : stop + 1] - low
        return Divergences(indptr, self.ids[low:high], self.sums[low:high], self.counts[low:high])


@dataclass(frozen=True)
class Moments(Sized):
    """Additive moments of a block of components, centred on the means of one model version.

    Parameters
    ----------
    counts : (B,) float64, N_c
    factor_moments : (B, H + 1, H + 1) float64, E_c
    moments : (B, H + 2, D), Σ q t², Σ q t, Σ q z_h t with t = x − μ; float64 where sums are formed, in the precision
        of the run where they wait or travel: they are as large as the model, and made of sums in that precision
    """

    counts: Float64
    factor_moments: Float64
    moments: FloatArray

    def block(self, start: int, stop: int) -> Moments:
        """The moments of components ``start:stop`` of this block (views)."""
        return Moments(self.counts[start:stop], self.factor_moments[start:stop], self.moments[start:stop])


@dataclass(frozen=True)
class RowTally(Sized):
    """What the rows of a shard group add up to, besides statistics of components.

    `free_energy` is a sum over rows in nats (larger is better), `seconds` the time per phase, `bytes_read` what was
    read from the store of the rows.
    """

    n_rows: int
    n_joints: int
    free_energy: float
    seconds: dict[str, float] = field(default_factory=dict)
    bytes_read: int = 0

    def __add__(self, other: RowTally) -> RowTally:
        seconds = {k: self.seconds.get(k, 0.0) + other.seconds.get(k, 0.0) for k in {**self.seconds, **other.seconds}}
        return RowTally(
            self.n_rows + other.n_rows,
            self.n_joints + other.n_joints,
            self.free_energy + other.free_energy,
            seconds,
            self.bytes_read + other.bytes_read,
        )


@dataclass(frozen=True)
class Statistics(Sized):
    """What one shard group contributes to one block of components; additive, tied to a model version.

    `moments` is absent in warm-up, `divergences` where no search took place.
    """

    version: int
    start: int
    stop: int
    moments: Moments | None
    divergences: Divergences | None
