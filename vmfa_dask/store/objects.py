"""Object stores (S3 and the like): rows are read from them, and runs and models kept in them (`store.object_place`).

May import: zarr, obstore, store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

# Schemes that `obstore` opens; zarr hands any other one to `fsspec`.
OBJECT_STORES = ("s3", "s3a", "gs", "az", "adl", "abfs", "abfss")
# Requests that are throttled or dropped are retried with growing delays, for at most this long.
_PATIENCE = timedelta(seconds=60)
_MOST_RETRIES = 12


def is_object_store(path: str) -> bool:
    """Whether a path is the URL of an object store.

    Parameters
    ----------
    path : str
        Path or URL.

    Returns
    -------
    bool
        True for the schemes of `OBJECT_STORES`.
    """
    return "://" in path and path.split("://")[0] in OBJECT_STORES


def zarr_target(path: str) -> Any:
    """Translate a path or URL for zarr.

    Parameters
    ----------
    path : str
        Path, or URL of any scheme.

    Returns
    -------
    zarr.storage.ObjectStore or str
        A store with retries for the URL of an object store; anything else unchanged.

    Raises
    ------
    ImportError
        If the package for object stores is not installed.
    """
    if not is_object_store(path):
        return path
    from zarr.storage import ObjectStore

    return ObjectStore(open_object_store(path))


def open_object_store(url: str) -> Any:
    """Open an object store with retries, within bounds, of throttled and dropped requests.

    Parameters
    ----------
    url : str
        URL of a prefix.

    Returns
    -------
    obstore.store.ObjectStore
        Keys are relative to the prefix.

    Raises
    ------
    ImportError
        If the package for object stores is not installed.
    """
    try:
        from obstore.store import from_url
    except ImportError as error:
        raise ImportError(f"{url}: object stores need the extra 'cloud': pip install 'vmfa-dask[cloud]'") from error
    retries: Any = {"max_retries": _MOST_RETRIES, "retry_timeout": _PATIENCE}
    return from_url(url, retry_config=retries)


@contextmanager
def errors_of_store(url: str, failure: str) -> Iterator[None]:
    """Turn errors of an object store in the enclosed lines into `OSError`.

    Parameters
    ----------
    url : str
        URL of the object or prefix in question.
    failure : str
        What went wrong, such as "cannot be written".

    Raises
    ------
    OSError
        With the URL, `failure` and the first line of the store's message.
    """
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError) as error:
        kind = type(error) if isinstance(error, OSError) else OSError
        raise kind(f"{url} {failure}: {str(error).splitlines()[0]}") from error
