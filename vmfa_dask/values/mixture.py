"""Parameters of a model and its neighbour graph: frozen, checked when made, their arrays read-only.

May import: numpy, sizes, values.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from vmfa_dask.sizes import Sized
from vmfa_dask.values.arrays import Float64, FloatArray, Int32


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


def _equal(value: Any, other: Any) -> bool:
    """Whether two values of one class hold the same: their arrays equal shapes and numbers, all else equal values."""
    pairs = ((getattr(value, f.name), getattr(other, f.name)) for f in fields(value) if f.compare)
    return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)


@dataclass(frozen=True, eq=False)
class Mixture(Sized):
    """Parameters of a mixture of factor analyzers, Σ_c π_c N(x; μ_c + offset, Λ_cΛ_cᵀ + diag σ²_c).

    Parameters
    ----------
    weights : (C,) float64 array
        Mixing proportions π; 0 marks a dropped component.
    means : (C, D) float32 or float64 array
        μ, relative to `offset`.
    loadings : (C, H, D) array of the same dtype
        Λ; each factor's row is contiguous.
    noise_variances : (C, D) array of the same dtype
        σ², positive.
    feature_shape : tuple of int
        Shape of one row as it is stored, such as (32, 32, 3); its product is D.
    offset : (D,) float64 array
        Subtracted from rows in float64 before they are narrowed; zero unless the data needs it.
    version : int
        Number of M-steps that led here; mixtures of different versions may be equal.

    Raises
    ------
    ValueError
        If shapes disagree or a parameter is outside its range.
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
        """The same mixture, after a check of every number.

        Returns
        -------
        Mixture

        Raises
        ------
        ValueError
            Naming the parameter, the index, what was found and what is expected.
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
        """The same mixture as the start of a run: a component without rows counts as one row.

        Parameters
        ----------
        n_rows : int
            N of the run.

        Returns
        -------
        Mixture
        """
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
class ComponentParameters(Sized):
    """Parameters of B components of a mixture, such as a component block.

    Parameters
    ----------
    weights : (B,) float64 array
        Their mixing proportions; 0 marks a dropped component.
    means : (B, D) float32 or float64 array
        μ, relative to the offset of the mixture.
    loadings : (B, H, D) array of the same dtype
        Λ; each factor's row is contiguous.
    noise_variances : (B, D) array of the same dtype
        σ².
    """

    weights: Float64
    means: FloatArray
    loadings: FloatArray
    noise_variances: FloatArray

    def __post_init__(self) -> None:
        _freeze(self, ("weights", "means", "loadings", "noise_variances"))


@dataclass(frozen=True, eq=False)
class Centers(Sized):
    """What rows are evaluated with beside the packed form of a mixture: no loadings and no noise variances.

    Parameters
    ----------
    version : int
        Version of the parameters.
    weights : (C,) float64 array
        Mixing proportions; 0 marks a dropped component.
    means : (C, D) float32 or float64 array
        μ, relative to `offset`; moments are centred on them.
    offset : (D,) float64 array
        Subtracted from rows before they are narrowed.
    """

    version: int
    weights: Float64
    means: FloatArray
    offset: Float64

    def __post_init__(self) -> None:
        _freeze(self, ("weights", "means", "offset"))

    @classmethod
    def of(cls, mixture: Mixture) -> Centers:
        """The centers of a mixture.

        Parameters
        ----------
        mixture : Mixture
            The mixture.

        Returns
        -------
        Centers
            Its arrays themselves.
        """
        return cls(mixture.version, mixture.weights, mixture.means, mixture.offset)

    @property
    def n_components(self) -> int:
        """C."""
        return int(self.means.shape[0])


@dataclass(frozen=True, eq=False)
class NeighborGraph(Sized):
    """Sets g_c of components similar to c.

    Parameters
    ----------
    neighbors : (C, G) int32 array
        Column 0 is the component itself, −1 pads.
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
