"""Rows that the precision of a run cannot hold are refused by name, before they spoil what other rows add up to.

May import: values, em.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask.em.rows import LARGEST_SPAN, Rows, read_only
from vmfa_dask.run.row_source import RowSource, refuse_non_finite
from vmfa_dask.run.settings import Settings
from vmfa_dask.values import Float64, Mixture

# Other types cannot hold what is too large.
_WIDE = ("float32", "float64", "int64", "uint64")


class BeyondPrecision(ValueError):
    """A row is too far from the others, or from all components, for the precision of the run."""


def refuse_span(
    source: RowSource, first: int, block: Rows, lowest: Float64, highest: Float64, precision: str
) -> None:
    """Raise where a feature spreads too far over the rows that were seen up to this block.

    Parameters
    ----------
    source : RowSource
        The training rows.
    first : int
        Number of the first row of the block.
    block : (n, D) array
        Its rows, as they are stored.
    lowest, highest : (D,) float64 arrays
        Smallest and largest value of each feature so far, those of the block included.
    precision : {"float32", "float64"}
        Precision of the run.

    Raises
    ------
    BeyondPrecision
        Naming the row, the feature and a remedy.
    """
    with np.errstate(over="ignore"):
        spans = highest - lowest
    feature = int(np.argmax(spans))
    if not spans[feature] > LARGEST_SPAN[precision]:
        return
    column = block[:, feature].astype(np.float64)
    ends = sorted((lowest[feature], highest[feature]), key=abs, reverse=True)
    outlier, other = ends if ends[0] in column else reversed(ends)  # one of the two came with this block
    row = int(np.argmax(column == outlier))
    raise BeyondPrecision(
        f"{source.describe(first + row)}, feature {feature}: found {outlier:g}, too far from {other:g} in other rows "
        f"for precision={precision!r}; {_what_helps(precision, spans[feature])}"
    )


def refuse_scales(scales: Float64, settings: Settings) -> None:
    """Raise where a feature spreads so little that its noise variances would be lost in the precision of the run.

    Parameters
    ----------
    scales : (D,) float64 array
        Spread of the features.
    settings : Settings
        The run.

    Raises
    ------
    BeyondPrecision
        Naming the feature and a remedy.
    """
    feature = int(np.argmin(scales))
    if settings.reg_covar * scales[feature] ** 2 < np.finfo(settings.precision).tiny:
        helps = "use precision='float64' or scale" if settings.precision == "float32" else "scale"
        raise BeyondPrecision(
            f"feature {feature}: its spread of {scales[feature]:g} is too small for precision={settings.precision!r}; "
            f"{helps} the feature"
        )


def with_squares(block: Rows, lowest: Float64, highest: Float64) -> Rows:
    """Rows whose differences can be squared in their dtype.

    Parameters
    ----------
    block : (n, D) array
        Rows, as they are stored.
    lowest, highest : (D,) float64 arrays
        Smallest and largest value of each feature.

    Returns
    -------
    (n, D) array
        The same rows, in float64 where squares would overflow float32.
    """
    if block.dtype != np.float32 or np.max(highest - lowest) < LARGEST_SPAN["float32"]:
        return block
    return read_only(block.astype(np.float64))


def refuse_values(source: RowSource, first: int, block: Rows, working: Rows, precision: str) -> None:
    """Raise where a row is too far from the offset of the run.

    Parameters
    ----------
    source : RowSource
        The training rows.
    first : int
        Number of the first row of the block.
    block : (n, D) array
        Its rows, as they are stored.
    working : (n, D) array
        The same rows, as kernels take them.
    precision : {"float32", "float64"}
        Precision of the run.

    Raises
    ------
    BeyondPrecision
        Naming the row, the feature and a remedy.
    """
    if block.dtype.name not in _WIDE:
        return
    reach = np.maximum(working.max(axis=0), -working.min(axis=0))
    feature = int(np.argmax(reach))
    if not float(reach[feature]) > LARGEST_SPAN[precision] / 2:
        return
    refuse_non_finite(source, first, block)
    row = int(np.argmax(np.abs(working[:, feature])))
    value = float(block[row, feature])
    raise BeyondPrecision(
        f"{source.describe(first + row)}, feature {feature}: found {value:g}, too large for precision={precision!r}; "
        f"{_what_helps(precision, abs(value))}"
    )


def refuse_row(source: RowSource, number: int, row: Rows, mixture: Mixture) -> None:
    """Raise for a row that no component gives a finite density, naming the feature that is farthest from all of them.

    Parameters
    ----------
    source : RowSource
        The training rows.
    number : int
        Number of the row.
    row : (D,) array
        The row, as it is stored.
    mixture : Mixture
        The parameters.

    Raises
    ------
    BeyondPrecision
        Naming the row, the feature and a remedy.
    """
    precision = mixture.means.dtype.name
    with np.errstate(over="ignore"):
        value = row.astype(np.float64) - mixture.offset
        distances = np.abs(value - mixture.means) / np.sqrt(mixture.noise_variances.astype(np.float64))
    feature = int(np.argmax(distances.min(axis=0)))
    raise BeyondPrecision(
        f"{source.describe(number)}, feature {feature}: found {float(row[feature]):g}; no component gives this row a "
        f"finite density with precision={precision!r}: {_what_helps(precision, abs(float(value[feature])))}"
    )


def _what_helps(precision: str, size: float) -> str:
    """Advice for what is too large by `size`."""
    wider = "use precision='float64', " if precision == "float32" and size < LARGEST_SPAN["float64"] / 2 else ""
    return f"{wider}scale the feature, or leave the row out"
