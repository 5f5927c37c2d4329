"""How the noise variances of the M-step are constrained, by covariance type and by what components share.

The M-step finds one variance per component and feature; a model type averages what it has in common. For equal
variances over features the maximum of the free energy is their mean, for shared ones the mean weighted by N_c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vmfa_dask.values import Float64, FloatArray


@dataclass(frozen=True)
class NoiseModel:
    """A constraint on noise variances.

    Parameters
    ----------
    isotropic : bool
        One variance for all features.
    shared : bool
        One set of variances for all components, averaged once all component blocks are done.
    """

    isotropic: bool
    shared: bool

    def floors(self, lowest: Float64) -> Float64:
        """Values below which the M-step may not lower variances; averages are floored afterwards.

        Parameters
        ----------
        lowest : (D,) float64 array
            Smallest noise variances.

        Returns
        -------
        (D,) float64 array
        """
        return np.zeros_like(lowest) if self.isotropic or self.shared else lowest

    def apply(self, noise: FloatArray, lowest: Float64, scales: Float64) -> None:
        """Constrain the variances of some components in place.

        Parameters
        ----------
        noise : (B, D) array
            Noise variances, in squared units of the data.
        lowest : (D,) float64 array
            Smallest noise variances.
        scales : (D,) float64 array
            Units in which isotropic variances are equal.
        """
        if self.isotropic:
            # The mean is over features in their units, in which they are comparable, and goes back to those of the
            # data.
            noise[:] = np.mean(noise / scales**2, axis=1, keepdims=True, dtype=np.float64) * scales**2
            # Shared variances are still to be averaged over components, and floored after that.
            if not self.shared:
                np.maximum(noise, lowest, out=noise)


NOISE_MODELS = {
    (kind, noise): NoiseModel(kind == "isotropic", noise == "shared")
    for kind in ("mfa", "diagonal", "isotropic")
    for noise in ("component", "shared")
}
