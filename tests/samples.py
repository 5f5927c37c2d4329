"""Small data sets, mixtures and stores that tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from vmfa_dask import MixtureModel
from vmfa_dask.run.start import Start
from vmfa_dask.values import Mixture, NeighborGraph


def make_mixture(
    n_components: int, n_features: int, n_factors: int, seed: int = 0, dtype: str = "float64", spread: float = 4.0
) -> Mixture:
    """A well-conditioned mixture with unequal weights; means are `spread` apart."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, n_components)
    return Mixture(
        weights / weights.sum(),
        (spread * rng.normal(size=(n_components, n_features))).astype(dtype),
        rng.normal(size=(n_components, n_factors, n_features)).astype(dtype),
        rng.uniform(0.3, 1.5, (n_components, n_features)).astype(dtype),
    )


def _mixture(source: Mixture | MixtureModel) -> Mixture:
    return source.mixture if isinstance(source, MixtureModel) else source


def draw(source: Mixture | MixtureModel, n_rows: int, seed: int = 1, dtype: str = "float64") -> NDArray[Any]:
    """Rows of a mixture; integer types get rounded and clipped values."""
    mixture = _mixture(source)
    rng = np.random.default_rng(seed)
    owner = rng.choice(mixture.n_components, n_rows, p=mixture.weights)
    factors = rng.normal(size=(n_rows, mixture.n_factors))
    noise = rng.normal(size=(n_rows, mixture.n_features)) * np.sqrt(mixture.noise_variances[owner])
    rows = mixture.offset + mixture.means[owner] + np.einsum("nh,nhd->nd", factors, mixture.loadings[owner]) + noise
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        rows = np.clip(np.rint(rows), limits.min, limits.max)
    return rows.astype(dtype)


def images(n_rows: int, shape: tuple[int, ...], seed: int = 0, n_kinds: int = 6) -> NDArray[np.uint8]:
    """Images 0..255 of a few kinds: smooth patterns of varying contrast, with noise."""
    rng = np.random.default_rng(seed)
    kinds = rng.uniform(60, 190, (n_kinds, *shape))
    change = rng.uniform(-25, 25, (n_kinds, *shape))
    owner, amount = rng.integers(0, n_kinds, n_rows), rng.normal(size=(n_rows, *[1] * len(shape)))
    rows = kinds[owner] + amount * change[owner] + rng.normal(0, 6, (n_rows, *shape))
    return np.clip(np.rint(rows), 0, 255).astype(np.uint8)


def make_start(mixture: Mixture, n_rows: int, truncation: int, neighborhood: int, seed: int = 2) -> Start:
    """A start with given parameters and random neighbours and kept components."""
    rng, c = np.random.default_rng(seed), mixture.n_components
    others = [rng.permutation(np.delete(np.arange(c), k))[: neighborhood - 1] for k in range(c)]
    graph = NeighborGraph(np.column_stack([np.arange(c), np.array(others, int).reshape(c, -1)]).astype(np.int32))
    kept = np.argsort(rng.random((n_rows, c)), axis=1)[:, :truncation].astype(np.int32)
    return Start(mixture, graph, kept)


def exact_start(mixture: Mixture, n_rows: int) -> Start:
    """A start whose rows keep every component, so that no search takes place."""
    c = mixture.n_components
    return Start(
        mixture,
        NeighborGraph(np.arange(c, dtype=np.int32)[:, None]),
        np.tile(np.arange(c, dtype=np.int32), (n_rows, 1)),
    )


def fixed_passes(n_components: int, n_factors: int, **settings: Any) -> dict[str, Any]:
    """Settings of a run that ends by its numbers of passes, whatever it gains in them."""
    return {"n_components": n_components, "n_factors": n_factors, "tol": 0.0, "warmup_tol": 0.0, **settings}


def write_store(path: Path | str, rows: NDArray[Any], chunks: tuple[int, ...] | int, **options: Any) -> str:
    """Rows as a Zarr array, every chunk stored; `chunks` is a shape or a number of rows."""
    options = {"config": {"write_empty_chunks": True}, **options}
    if isinstance(chunks, int):
        chunks = (chunks, *rows.shape[1:])
    stored = zarr.create_array(str(path), shape=rows.shape, dtype=rows.dtype, chunks=chunks, **options)
    stored[...] = rows
    return str(path)


def parameters(source: Mixture | MixtureModel) -> bytes:
    """Every parameter of a mixture, for comparing bit by bit."""
    mixture = _mixture(source)
    names = ("weights", "means", "loadings", "noise_variances", "offset")
    return b"".join(np.ascontiguousarray(getattr(mixture, name)).tobytes() for name in names)
