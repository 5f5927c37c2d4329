"""Standard normal noise as a function of seed, stream and row, so that any cut of the rows gives the same values.

Imports NumPy.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_WORDS = 4
"""Words of 64 bits per value of Philox's counter."""


def standard_normal(seed: int, stream: int, rows: range, n_features: int) -> npt.NDArray[np.float64]:
    """Draw standard normal noise for consecutive rows.

    Parameters
    ----------
    seed : int
        Key of the generator; at least 0 and below 2**64.
    stream : int
        Second half of the key: streams are independent. At least 0 and below 2**64.
    rows : range
        Row numbers, with step 1.
    n_features : int
        Values per row.

    Returns
    -------
    (len(rows), n_features) float64 array
        Independent values of mean 0 and variance 1.

    Notes
    -----
    The counter of Philox4x64 continues from row to row. Pairs of its words become pairs of normal values by the method
    of Box and Muller, which takes a fixed number of words, unlike NumPy's own normal values.
    """
    per_row = -(-n_features // _WORDS)
    key = np.array([seed, stream], np.uint64)
    words = np.random.Philox(key=key, counter=rows.start * per_row).random_raw(len(rows) * per_row * _WORDS)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    radius, angle = np.sqrt(-2 * np.log(uniform[::2])), 2 * np.pi * uniform[1::2]
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return pairs.reshape(len(rows), -1)[:, :n_features]
