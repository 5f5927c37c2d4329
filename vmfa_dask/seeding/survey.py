"""The units of the data: how far each feature spreads, and how sharp a density can be said to be.

Everything here scales with the feature, so that a run on centimetres is the run on metres. May import: values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vmfa_dask.sizes import Sized
from vmfa_dask.values import Float64

# Smallest noise variance of values that are recorded in steps of u, as counts and grey levels are, in u². They say
# nothing of standard deviations far below u: a pixel that is the same in all rows of a component would otherwise make
# another value of it improbable beyond measure. For grey levels this is the floor of the paper.
_SMALLEST_IN_STEPS = 1e-3
# Two values u apart, equally frequent, have the largest standard deviation that they can have, u/2.
_SPREAD_IN_STEPS = 0.5


@dataclass(frozen=True)
class Survey(Sized):
    """Moments and extremes of the features over some rows, additive.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    means : (D,) float64 array
        Means.
    squares : (D,) float64 array
        Sums of squared deviations from the means.
    extremes : (4, D) float64 array
        The two smallest and the two largest distinct values (see `kernels.survey.extremes`).
    """

    n_rows: int
    means: Float64
    squares: Float64
    extremes: Float64

    def __add__(self, other: Survey) -> Survey:
        # Chan, Golub and LeVeque (1983): stable for any sizes of the two parts.
        n = self.n_rows + other.n_rows
        delta = other.means - self.means
        return Survey(
            n,
            self.means + delta * (other.n_rows / n),
            self.squares + other.squares + delta**2 * (self.n_rows * other.n_rows / n),
            join_extremes(self.extremes, other.extremes),
        )

    @property
    def variances(self) -> Float64:
        """(D,)."""
        return self.squares / self.n_rows

    @property
    def lowest(self) -> Float64:
        """Smallest value of each feature, (D,)."""
        lowest: Float64 = self.extremes[0].copy()
        return lowest

    @property
    def highest(self) -> Float64:
        """Largest value of each feature, (D,)."""
        highest: Float64 = self.extremes[3].copy()
        return highest

    @property
    def steps(self) -> Float64:
        """Smallest step that is seen between values of each feature, (D,); 0 where all values are equal.

        The first step from either end: exact whatever the cut into parts, and as small as the data is fine.
        """
        smallest, second, last_but_one, largest = self.extremes
        with np.errstate(invalid="ignore"):
            steps = np.minimum(second - smallest, largest - last_but_one)
        return np.where(np.isfinite(steps), steps, 0.0)

    def scales(self) -> Float64:
        """Spread of each feature: its standard deviation, or half a recorded step where that is larger.

        Attributes
        ----------
        constant feature gets the geometric mean of the others, so that it follows the units of the data.

        Returns
        -------
        (D,) float64 array
        """
        scales = np.maximum(np.sqrt(self.variances), _SPREAD_IN_STEPS * self.steps)
        spread = scales > 0
        typical = np.exp(np.log(scales[spread]).mean()) if spread.any() else 1.0
        return np.where(spread, scales, typical)

    def floors(self) -> Float64:
        """Noise variances below which the recorded steps leave nothing to be known.

        Returns
        -------
        (D,) float64 array
        """
        return _SMALLEST_IN_STEPS * self.steps**2


def join_extremes(a: Float64, b: Float64) -> Float64:
    """Extremes of two sets of rows together.

    Parameters
    ----------
    a, b : (4, D) float64 arrays
        Their extremes (see `Survey`).

    Returns
    -------
    (4, D) float64 array
    """
    lowest, highest = np.minimum(a[0], b[0]), np.maximum(a[3], b[3])
    low = np.stack([np.where(value > lowest, value, np.inf) for value in (a[0], a[1], b[0], b[1])])
    high = np.stack([np.where(value < highest, value, -np.inf) for value in (a[2], a[3], b[2], b[3])])
    return np.stack([lowest, low.min(axis=0), high.max(axis=0), highest])
