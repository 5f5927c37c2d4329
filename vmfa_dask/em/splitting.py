"""Components that lost all their rows take half of another one (paper, ablation on initialisation).

May import: values, kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.kernels import random
from vmfa_dask.values import Float64, Int32

# Perturbation of the means of a half, in standard deviations of the noise: enough to separate two equal components.
_PERTURBATION = 0.1


@dataclass(frozen=True)
class Splits:
    """Components that are replaced in one model version.

    Parameters
    ----------
    components : (K,) int32 array
        Components without rows.
    donors : (K,) int32 array
        The component that each takes half of.
    """

    components: Int32
    donors: Int32

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is stored, by name.

        Returns
        -------
        dict of str to array
        """
        return {"components": self.components, "donors": self.donors}

    def pairs(self) -> list[tuple[int, int]]:
        """Component and donor of each split, in the order in which they are applied.

        Returns
        -------
        list of (int, int)
        """
        return list(zip(self.components.tolist(), self.donors.tolist(), strict=True))

    def donors_outside(self, start: int, stop: int) -> Int32:
        """Components elsewhere that those of a component block take half of.

        Parameters
        ----------
        start, stop : int
            The component block.

        Returns
        -------
        (K,) int32 array
            Their numbers, ascending.
        """
        inside = (self.components >= start) & (self.components < stop)
        donors = np.unique(self.donors[inside])
        return donors[(donors < start) | (donors >= stop)]


def draw_donors(weights: Float64, lost: Sequence[int], random_state: int, version: int) -> Splits:
    """Draw a donor, by its weight, for each component without rows.

    Parameters
    ----------
    weights : (C,) float64 array
        Mixing proportions of the new version.
    lost : sequence of int
        Components without rows.
    random_state, version : int
        Seed of the run and number of the version, of which the draws are a hash.

    Returns
    -------
    Splits
    """
    draws = np.empty((len(lost), 1))
    for k, component in enumerate(lost):
        random.uniforms(random_state, random.SPLITS, version, component, draws[k : k + 1])
    # The last edge is the sum as it was rounded: weights that add up to a bit less than 1 leave no draw without a
    # donor.
    edges = np.cumsum(weights)
    donors = np.searchsorted(edges, draws[:, 0] * edges[-1], side="right")
    return Splits(np.array(lost, np.int32), donors.astype(np.int32))


def split_parameters(
    parameters: dict[str, NDArray[Any]],
    splits: Splits,
    random_state: int,
    version: int,
    n_components: int,
    numbers: Int32,
) -> None:
    """Apply splits to parameters: half of the weight, and a perturbed mean for one of the halves.

    Parameters
    ----------
    parameters : dict of str to array
        Parameters of some components: `weights` (B,), `means` (B, D), `loadings` (B, H, D), `noise_variances` (B, D);
        replaced by changed copies.
    splits : Splits
        The splits of the version.
    random_state, version : int
        Of which the perturbations are a hash.
    n_components : int
        C, number of components of the mixture.
    numbers : (B,) int32 array
        Which components they are. With a component that is replaced its donor must be among them.
    """
    # Arrays of the storage are read-only, and other tasks may read them.
    for name, array in parameters.items():
        parameters[name] = array.copy()
    slots = {number: slot for slot, number in enumerate(numbers.tolist())}
    shift = np.empty((1, parameters["means"].shape[1]))
    for component, donor in splits.pairs():
        if donor not in slots:
            continue
        here = slots[donor]
        # One split after the other: a donor that was drawn twice is halved twice.
        parameters["weights"][here] *= 0.5
        if component not in slots:
            continue
        half = slots[component]
        for name in ("means", "loadings", "noise_variances"):
            parameters[name][half] = parameters[name][here]
        # Keys from C on: those below have served to draw the donors.
        random.uniforms(random_state, random.SPLITS, version, n_components + component, shift)
        deviation = np.sqrt(parameters["noise_variances"][here])
        parameters["means"][half] += (_PERTURBATION * (2 * shift[0] - 1) * deviation).astype(deviation.dtype)
        parameters["weights"][half] = parameters["weights"][here]


def split_neighbors(neighbors: Int32, splits: Splits, numbers: Int32) -> Int32:
    """Neighbours after the splits.

    Each donor proposes its new half, in its last place, and the half proposes what its donor proposes.

    Parameters
    ----------
    neighbors : (B, G) int32 array
        Neighbours of some components before.
    splits : Splits
        The splits of the version.
    numbers : (B,) int32 array
        Which components they are. With a component that is replaced its donor must be among them.

    Returns
    -------
    (B, G) int32 array
        A changed copy.
    """
    changed = neighbors.copy()
    # A component is its own first neighbour, which leaves no place for another.
    if changed.shape[1] == 1:
        return changed
    slots = {number: slot for slot, number in enumerate(numbers.tolist())}
    for component, donor in splits.pairs():
        if donor not in slots:
            continue
        proposed = changed[slots[donor]]
        # An empty place if there is one, else that of the farthest neighbour.
        free = np.flatnonzero(proposed < 0)
        proposed[free[0] if len(free) else -1] = component
        if component not in slots:
            continue
        others = [c for c in proposed.tolist() if c >= 0 and c not in (component, donor)]
        row = [component, donor, *others][: changed.shape[1]]
        changed[slots[component]] = row + [-1] * (changed.shape[1] - len(row))
    return changed
