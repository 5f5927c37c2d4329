"""Dask arrays as rows: written once, by the workers that hold them, for passes that read them again and again.

May import: distributed, dask.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from distributed import Client


def has_known_rows(array: Any) -> bool:
    """Whether the number of rows of each chunk of a Dask array is known."""
    return not any(np.isnan(size) for size in array.chunks[0])


def write_rows(array: Any, target: Any, client: Client | None) -> None:
    """Write a Dask array into a Zarr array of its shape, whose chunks are whole rows.

    Chunks that are split along the features are put together on the way; no process holds more than a few of them.
    """
    import dask.array

    whole = array.rechunk({0: target.chunks[0], **dict.fromkeys(range(1, array.ndim), -1)})
    with client.as_current() if client is not None else nullcontext():
        dask.array.store(whole, target, lock=False)
