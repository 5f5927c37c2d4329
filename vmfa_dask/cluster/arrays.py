"""Rows as workers find them: stores that all of them must see, Dask arrays that they write to one.

May import: store, cluster, distributed, dask.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from dask.base import is_dask_collection
from distributed import Client

from vmfa_dask.cluster.workers import ask
from vmfa_dask.store.opening import open_array
from vmfa_dask.store.rows import ZarrRows

_MOST_NAMES = 5


def _found_at(url: str, name: str | None) -> tuple[str, str]:
    """Shape and dtype of the array that this process finds, or why it finds none."""
    try:
        array = open_array(url, name)
    except MemoryError:
        raise
    except Exception as error:
        return "", f"{type(error).__name__}: {error}"
    return f"{array.shape} {array.dtype}", ""


def check_visible(client: Client, rows: ZarrRows) -> None:
    """Refuse rows that a worker does not find where this process does; nothing is made in looking.

    Raises
    ------
    FileNotFoundError
        Naming the workers, and what they find.
    """
    here, error = _found_at(rows.url, rows.name)
    if not here:
        raise FileNotFoundError(f"{rows.label}: not found any more: {error}")
    found = ask(client, _found_at, rows.url, rows.name)
    blind = sorted(worker for worker, (there, _) in found.items() if there != here)
    if blind:
        there, error = found[blind[0]]
        raise FileNotFoundError(
            f"{rows.label}: this process finds rows of {here} there, the workers {', '.join(blind[:_MOST_NAMES])} do "
            f"not ({error or f'found {there}'}); pass a path or URL that leads to the same data from everywhere"
        )


def is_lazy(data: Any) -> bool:
    """Whether workers compute the data: a collection of Dask, or one of xarray that holds such."""
    return bool(is_dask_collection(data))


def write_rows(array: Any, target: Any, client: Client | None) -> None:
    """Write a Dask array into a Zarr array of its shape, whose chunks are whole rows.

    Chunks that are split along the features are put together on the way; no process holds more than a few of them.
    """
    import dask.array

    whole = array.rechunk({0: target.chunks[0], **dict.fromkeys(range(1, array.ndim), -1)})
    with client.as_current() if client is not None else nullcontext():
        dask.array.store(whole, target, lock=False)
