"""What a partial E-step takes and adds up: posteriors, moments, divergences and tallies.

May import: numpy, sizes, values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.sizes import Sized
from vmfa_dask.values.arrays import Float64, FloatArray, Int32, Int64


@dataclass(frozen=True)
class TruncatedPosterior(Sized):
    """Kept components of some rows; their responsibilities are recomputed when they are needed.

    Parameters
    ----------
    components : (n, C') int32 array
        Best first, −1 where a row has fewer.
    resting : (n,) uint8 array or None
        Rows whose kept components came out of their last search unchanged; None where every row is searched in every
        pass.
    """

    components: Int32
    resting: NDArray[np.uint8] | None = None

    def rows(self, part: slice) -> TruncatedPosterior:
        """The posterior of a range of these rows.

        Parameters
        ----------
        part : slice
            The range.

        Returns
        -------
        TruncatedPosterior
            Views.
        """
        return TruncatedPosterior(self.components[part], None if self.resting is None else self.resting[part])

    def empty_like(self) -> TruncatedPosterior:
        """Unwritten memory for the next posterior of these rows.

        Returns
        -------
        TruncatedPosterior
        """
        return TruncatedPosterior(
            np.empty_like(self.components), None if self.resting is None else np.empty_like(self.resting)
        )

    def put(self, part: slice, posterior: TruncatedPosterior) -> None:
        """Overwrite a range of these rows.

        Parameters
        ----------
        part : slice
            The range.
        posterior : TruncatedPosterior
            The posterior of its rows.
        """
        self.components[part] = posterior.components
        if self.resting is not None and posterior.resting is not None:
            self.resting[part] = posterior.resting

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is stored, by name.

        Returns
        -------
        dict of str to array
        """
        return {"components": self.components, **({} if self.resting is None else {"resting": self.resting})}


@dataclass(frozen=True)
class Divergences(Sized):
    """Sparse tallies of a component block: Σ log p(x|c) − log p(x|c̃), and its number of terms.

    Parameters
    ----------
    indptr : (B + 1,) int64 array
        Entries of the k-th component are ``indptr[k]:indptr[k + 1]``.
    ids : (K,) int32 array
        c̃, ascending within a component.
    sums : (K,) float64 array
        Nats.
    counts : (K,) int64 array
        Terms.
    """

    indptr: Int64
    ids: Int32
    sums: Float64
    counts: Int64

    def block(self, start: int, stop: int) -> Divergences:
        """The tallies of some components of this block.

        Parameters
        ----------
        start, stop : int
            The range of components.

        Returns
        -------
        Divergences
            Views.
        """
        low, high = int(self.indptr[start]), int(self.indptr[stop])
        indptr = self.indptr[start : stop + 1] - low
        return Divergences(indptr, self.ids[low:high], self.sums[low:high], self.counts[low:high])


@dataclass(frozen=True)
class Moments(Sized):
    """Additive moments of a component block, centred on the means of one model version.

    Parameters
    ----------
    counts : (K,) float64 array
        N_c.
    factor_moments : (K, H + 1, H + 1) float64 array
        E_c.
    moments : (K, H + 2, D) array
        Σ q t², Σ q t, Σ q z_h t with t = x − μ. float64 while they are summed, and in the precision of the run where
        they wait or travel: they are as large as the model, and made of sums in that precision.
    ids : (K,) int32 array or None
        Ascending numbers of these components in the block; the sums of all others are zero. None for all of them.
    """

    counts: Float64
    factor_moments: Float64
    moments: FloatArray
    ids: Int32 | None = None

    def block(self, start: int, stop: int) -> Moments:
        """The moments of some components of this block.

        Parameters
        ----------
        start, stop : int
            The range of components.

        Returns
        -------
        Moments
            Views of the sums.
        """
        low, high, ids = start, stop, None
        if self.ids is not None:
            low, high = (int(k) for k in np.searchsorted(self.ids, (start, stop)))
            ids = self.ids[low:high] - np.int32(start)
        return Moments(self.counts[low:high], self.factor_moments[low:high], self.moments[low:high], ids)


@dataclass(frozen=True)
class RowTally(Sized):
    """Sums over the rows of a group that belong to no component.

    Parameters
    ----------
    n_rows, n_joints : int
        Rows, and log-joints that were evaluated.
    free_energy : float
        Sum over rows, in nats; larger is better.
    seconds : dict of str to float
        Wall-clock time per phase.
    bytes_read : int
        Bytes read from the store of the rows.
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
    """What one group contributes to one component block; additive, tied to a model version.

    Parameters
    ----------
    version : int
        Version of the parameters.
    start, stop : int
        The components.
    moments : Moments or None
        None in warm-up.
    divergences : Divergences or None
        None where no search took place.
    """

    version: int
    start: int
    stop: int
    moments: Moments | None
    divergences: Divergences | None
