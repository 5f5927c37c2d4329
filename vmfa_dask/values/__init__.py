"""The values that travel between rooms.

Sizes: C components, D features, H factors, C' kept components per row (`truncation`), G neighbours
(`neighborhood`), n rows of a group, B components of a component block. May import: numpy, sizes.
"""

from vmfa_dask.values.arrays import Float64, FloatArray, Int32, Int64, as_floats
from vmfa_dask.values.mixture import Centers, ComponentParameters, Mixture, NeighborGraph
from vmfa_dask.values.sums import Divergences, Moments, RowTally, Statistics, TruncatedPosterior

__all__ = [
    "Centers",
    "ComponentParameters",
    "Divergences",
    "Float64",
    "FloatArray",
    "Int32",
    "Int64",
    "Mixture",
    "Moments",
    "NeighborGraph",
    "RowTally",
    "Statistics",
    "TruncatedPosterior",
    "as_floats",
]
