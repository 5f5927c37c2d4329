"""Rows as workers see them: stores that all of them must find, and Dask arrays that they write to one.

May import: store, cluster, dask, distributed.
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
    """Shape and dtype of the array that this process finds, or else why it finds none."""
    try:
        array = open_array(url, name)
    except MemoryError:
        raise
    except Exception as error:
        return "", f"{type(error).__name__}: {error}"
    return f"{array.shape} {array.dtype}", ""


def check_visible(client: Client, rows: ZarrRows) -> None:
    """Refuse rows that a worker does not find where this process does; looking creates nothing.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    rows : ZarrRows
        As this process has opened them.

    Raises
    ------
    FileNotFoundError
        Naming the workers, and what they find.
    """
    here, error = _found_at(rows.url, rows.name)
    if not here:
        raise FileNotFoundError(f"{rows.label}: not found any more: {error}")
    answers = ask(client, _found_at, rows.url, rows.name)
    blind = sorted(worker for worker, (array, _) in answers.items() if array != here)
    if blind:
        array, error = answers[blind[0]]
        raise FileNotFoundError(
            f"{rows.label}: this process finds rows of {here} there, the workers {', '.join(blind[:_MOST_NAMES])} do "
            f"not ({error or f'found {array}'}); pass a path or URL that leads to the same data from everywhere"
        )


def is_lazy(data: Any) -> bool:
    """Whether workers compute the data.

    Parameters
    ----------
    data : object
        Of any kind.

    Returns
    -------
    bool
        True for collections of Dask, and for objects of xarray that hold them.
    """
    return bool(is_dask_collection(data))


def write_rows(array: Any, target: Any, client: Client | None) -> None:
    """Write a Dask array into a Zarr array; no process holds more than a few chunks.

    Parameters
    ----------
    array : dask.array.Array of shape (N, ...)
        Chunks may be split along the features; they are joined on the way.
    target : zarr.Array of shape (N, ...)
        Its chunks hold whole rows.
    client : distributed.Client, optional
        Whose workers compute and write; by default Dask's own scheduler does.

    Raises
    ------
    Exception
        What computing or writing a chunk raises.
    """
    import dask.array

    whole_rows = array.rechunk({0: target.chunks[0], **dict.fromkeys(range(1, array.ndim), -1)})
    with client.as_current() if client is not None else nullcontext():
        dask.array.store(whole_rows, target, lock=False)
