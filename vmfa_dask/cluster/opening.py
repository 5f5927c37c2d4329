"""Clusters and connections that the command line opens for a call, and closes after it.

May import: distributed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import LocalCluster, Security
from distributed.system import MEMORY_LIMIT

from vmfa_dask.cluster.clients import ConnectedClient
from vmfa_dask.cluster.quantities import bytes_of
from vmfa_dask.runtime.threads import available_cores

logger = logging.getLogger(__name__)


@contextmanager
def local_client(
    workers: int | None = None, threads: int | None = None, memory_limit: int | str | None = None
) -> Iterator[ConnectedClient]:
    """Run a cluster on this machine during the enclosed lines.

    Parameters
    ----------
    workers : int, optional
        Worker processes; by default one worker in this process, whose parameters need not travel.
    threads : int, optional
        Threads of each worker; by default its share of the cores that this process may use.
    memory_limit : int or str, optional
        Memory of each worker in bytes, or as a text such as "4 GB"; 0 is no limit. By default its share of this
        machine's memory.

    Yields
    ------
    distributed.Client
        Of the cluster; never the current client.

    Raises
    ------
    ValueError
        When the limit is no number of bytes.
    """
    cluster = LocalCluster(
        n_workers=workers or 1,
        threads_per_worker=_threads(workers, threads),
        processes=workers is not None,
        memory_limit=memory_limit_here(workers, memory_limit),
        dashboard_address="127.0.0.1:0",  # None would serve the scheduler's pages to the network
        silence_logs=logging.ERROR,  # of Dask: what matters of them reaches the caller as an error
        host="127.0.0.1" if workers is not None else None,
    )
    with cluster, ConnectedClient(cluster, set_as_default=False) as client:
        logger.debug("dashboard: %s", client.dashboard_link)
        yield client


def memory_limit_here(workers: int | None = None, memory_limit: int | str | None = None) -> int | None:
    """Memory limit of each worker of `local_client`.

    Parameters
    ----------
    workers, memory_limit
        As in `local_client`.

    Returns
    -------
    int or None
        Bytes; None is no limit.

    Raises
    ------
    ValueError
        When the limit is no number of bytes.
    """
    if memory_limit is None:
        return int(MEMORY_LIMIT / (workers or 1))
    if isinstance(memory_limit, str):
        try:
            memory_limit = bytes_of(memory_limit)
        except (ValueError, OverflowError) as error:
            raise ValueError("expected bytes, or a text such as '4 GB'") from error
    return int(memory_limit) or None


def _threads(workers: int | None, threads: int | None) -> int:
    return threads or max(1, available_cores() // (workers or 1))


def security_of(ca: str | None, certificate: str | None, key: str | None) -> Any:
    """Credentials for a scheduler that talks TLS.

    Parameters
    ----------
    ca, certificate, key : str or None
        Paths of PEM files: the authority that both sides trust, and certificate and key of this client.

    Returns
    -------
    distributed.Security
        Refuses connections without encryption.
    """
    return Security(tls_ca_file=ca, tls_client_cert=certificate, tls_client_key=key, require_encryption=True)


@contextmanager
def secured_client(address: str, security: Any) -> Iterator[ConnectedClient]:
    """Connect to a scheduler with credentials during the enclosed lines.

    Parameters
    ----------
    address : str
        Of the scheduler, ``tls://host:port``.
    security : distributed.Security
        From `security_of`.

    Yields
    ------
    distributed.Client
        Never the current client.

    Raises
    ------
    OSError
        When no scheduler answers there.
    """
    try:
        client = ConnectedClient(address, security=security, set_as_default=False)
    except OSError as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise OSError(f"scheduler {address}: none answers there with these credentials: {reason}") from error
    with client:
        yield client
