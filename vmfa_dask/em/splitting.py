"""Components that lost all their rows take half of another one (paper, ablation on initialisation).

A version is written once, so a split is a patch beside its component blocks: which components are replaced, and by
what. Every process applies it when it puts the version together. May import: values, kernels, em.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.em.settings import Settings
from vmfa_dask.em.storage import Arrays, Storage
from vmfa_dask.kernels import random
from vmfa_dask.values import Float64, Int32

# Perturbation of the means of a half, in standard deviations of the noise: enough to part two equal components.
_PERTURBATION = 0.1


def draw_donors(weights: Float64, lost: Sequence[int], settings: Settings, version: int) -> dict[str, NDArray[Any]]:
    """The patch of a version: components without rows, and for each one another that is drawn by its weight."""
    draws = np.empty((len(lost), 1))
    for k, component in enumerate(lost):
        random.uniforms(settings.random_state, random.SPLITS, version, component, draws[k : k + 1])
    edges = np.cumsum(weights)
    donors = np.searchsorted(edges, draws[:, 0] * edges[-1], side="right")
    return {"components": np.array(lost, np.int32), "donors": donors.astype(np.int32)}


def read_patch(storage: Storage, kind: str, version: int, block: int) -> Arrays | None:
    """The patch of a version; None where no component was split."""
    try:
        return storage.read(kind, version, block)
    except KeyError:
        return None


def split_parameters(parameters: dict[str, NDArray[Any]], patch: Arrays, settings: Settings, version: int) -> None:
    """Give each component of the patch half the weight of its donor, and the donor's parameters beside its own mean."""
    for name, array in parameters.items():
        parameters[name] = array.copy()
    d = parameters["means"].shape[1]
    shift = np.empty((1, d))
    for component, donor in zip(patch["components"].tolist(), patch["donors"].tolist(), strict=True):
        for name in ("means", "loadings", "noise_variances"):
            parameters[name][component] = parameters[name][donor]
        random.uniforms(settings.random_state, random.SPLITS, version, settings.n_components + component, shift)
        deviation = np.sqrt(parameters["noise_variances"][donor])
        parameters["means"][component] += (_PERTURBATION * (2 * shift[0] - 1) * deviation).astype(deviation.dtype)
        parameters["weights"][donor] *= 0.5
        parameters["weights"][component] = parameters["weights"][donor]


def split_neighbors(neighbors: Int32, patch: Arrays) -> Int32:
    """Graph in which each donor proposes its new half, in its last place, and the half what its donor proposes."""
    changed = neighbors.copy()
    for component, donor in zip(patch["components"].tolist(), patch["donors"].tolist(), strict=True):
        if changed.shape[1] > 1:
            free = np.flatnonzero(changed[donor] < 0)
            changed[donor, free[0] if len(free) else -1] = component
            others = [c for c in changed[donor].tolist() if c >= 0 and c not in (component, donor)]
            row = [component, donor, *others][: changed.shape[1]]
            changed[component] = row + [-1] * (changed.shape[1] - len(row))
    return changed
