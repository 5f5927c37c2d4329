"""Exact inference with a mixture on NumPy rows: every component, no search. May import: values, kernels, em, store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vmfa_dask.em.evaluation import evaluate_all_joints
from vmfa_dask.em.precision import Precision, derive
from vmfa_dask.em.rows import Rows, working_rows
from vmfa_dask.em.threads import Cores, available_cores
from vmfa_dask.values import Float64, Int64, Mixture

_BLOCK_BYTES = 64 * 2**20


def as_rows(mixture: Mixture, x: Any) -> Rows:
    """Rows (n, D) from an array of rows in stored or flat shape.

    Raises
    ------
    ValueError
        When the width is not that of the model, the dtype holds no numbers, or a value is NaN or infinite.
    """
    rows = np.asarray(x)
    if rows.ndim < 2:
        raise ValueError(
            f"x: shape {rows.shape} has no feature axis; expected (n, {mixture.n_features}) or "
            f"(n, {', '.join(map(str, mixture.feature_shape))}); use reshape(1, -1) for one row"
        )
    width = int(np.prod(rows.shape[1:]))
    if width != mixture.n_features:
        raise ValueError(f"x: rows have {width} features, the model has {mixture.n_features}")
    if rows.dtype.kind not in "iuf":
        raise ValueError(f"x: dtype {rows.dtype} is not supported; expected an integer or a float")
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        bad = int(np.argmin(np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)))
        raise ValueError(f"x: row {bad} holds NaN or infinity, expected finite numbers")
    return np.ascontiguousarray(rows.reshape(len(rows), -1))


class Evaluator:
    """Log-joints of rows with all components, block by block."""

    def __init__(self, mixture: Mixture, n_threads: int | None = None) -> None:
        self.mixture = mixture
        self.cores = Cores(n_threads or available_cores())
        self.precision: Precision = derive(mixture, self.cores)

    def blocks(self, rows: Rows) -> Iterator[tuple[int, Float64]]:
        """``(first row, log-joints (C, n))`` of the blocks of rows (N, D)."""
        size = int(np.clip(_BLOCK_BYTES // (8 * self.mixture.n_components), 16, 4096))
        for first in range(0, len(rows), size):
            block = working_rows(rows[first : first + size], self.mixture.offset, self.mixture.means.dtype.name)
            yield first, evaluate_all_joints(block, self.precision, self.cores)

    def score_samples(self, rows: Rows) -> Float64:
        """log p(x) per row, (n,) float64, nats."""
        scores = np.empty(len(rows))
        for first, joints in self.blocks(rows):
            best = joints.max(axis=0)
            scores[first : first + joints.shape[1]] = best + np.log(np.exp(joints - best).sum(axis=0))
        return scores

    def predict(self, rows: Rows) -> Int64:
        """Component of largest joint per row, (n,) int64; ties go to the smaller number."""
        labels = np.empty(len(rows), np.int64)
        for first, joints in self.blocks(rows):
            labels[first : first + joints.shape[1]] = joints.argmax(axis=0)
        return labels
