"""What a fit of the estimator is given besides its parameters: weights of rows and random states.

May import: service, numpy.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.service.keywords import DEFAULTS
from vmfa_dask.service.scikit_learn import check_array, check_consistent_length, check_random_state

# Dtypes of rows that reach the kernels as they are; others become float64. Images stay as small as they are.
ROW_DTYPES = (np.float64, np.float32, np.uint8)


def repeated_rows(rows: NDArray[Any], sample_weight: Any) -> NDArray[Any]:
    """Rows as often as their weights say, in their order.

    Parameters
    ----------
    rows : (n, D) array
        The rows.
    sample_weight : array_like of shape (n,) or None
        Whole numbers from 0; None for 1 each.

    Returns
    -------
    (sum of the weights, D) array
        `rows` itself where all weights are 1, a copy otherwise.

    Raises
    ------
    ValueError
        When weights are of another shape, negative, fractions, or all zero.
    """
    if sample_weight is None:
        return rows
    weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.ndim != 1:
        raise ValueError(f"sample_weight: found shape {weights.shape}, expected ({len(rows)},), one weight per row")
    check_consistent_length(rows, weights)
    counts = weights.astype(np.int64)
    wrong = np.flatnonzero((counts != weights) | (counts < 0))
    if len(wrong):
        raise ValueError(
            f"sample_weight[{wrong[0]}] is {weights[wrong[0]]:g}, expected a whole number from 0: how often the row "
            "counts"
        )
    if not counts.any():
        raise ValueError("sample_weight: all weights are zero, expected at least one row that counts")
    if np.all(counts == 1):
        return rows
    repeated: NDArray[Any] = np.repeat(rows, counts, axis=0)
    return repeated


def seed_of(random_state: Any) -> Any:
    """The seed that a random state of scikit-learn stands for.

    Parameters
    ----------
    random_state : int, numpy.random.RandomState or None
        A `RandomState` is advanced by one draw; None stands for the default seed.

    Returns
    -------
    int
        From 0; integers are returned as they are, for the settings of the run to check.

    Raises
    ------
    ValueError
        When it is nothing of the kind.
    """
    if random_state is None:
        return DEFAULTS["random_state"]
    if isinstance(random_state, Integral):
        return random_state
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
