"""The client of a fit, from what users pass: a client, the address of a scheduler, a cluster, or nothing.

May import: dask, distributed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Client, get_client, get_worker, rejoin, secede
from distributed.comm.core import CommClosedError
from distributed.threadpoolexecutor import thread_state

_EXPECTED = "a Client of distributed, the address of a scheduler, or a cluster such as LocalCluster"
_CLOSED = ("closing", "closed", "failed")


class Connection:
    """A client, and whether it closes with the fit: one that was opened here does, that of the user never.

    Parameters
    ----------
    client : distributed.Client
        Connected to a scheduler.
    opened : bool
        Whether it was opened here.
    """

    def __init__(self, client: Client, opened: bool) -> None:
        self.client, self._ends = client, opened

    def keep(self) -> Connection:
        """Leave the client open after the fit.

        Returns
        -------
        Connection
            To the same client; its owner calls `end`.
        """
        kept = Connection(self.client, self._ends)
        self._ends = False
        return kept

    def end(self) -> None:
        """Close the client if it was opened here and is not kept."""
        if self._ends:
            self.client.close()


class ConnectedClient(Client):
    """A client that is closed again when it cannot connect.

    Dask closes it only after some errors. Otherwise the garbage collector would do so, perhaps in the middle of another
    client's start, and wait for a lock that its own thread holds.
    """

    def start(self, **options: Any) -> None:
        """Connect to the scheduler.

        Parameters
        ----------
        **options : object
            As of `distributed.Client.start`.
        """
        try:
            super().start(**options)
        except BaseException:
            self.close()
            raise


@contextmanager
def connected(client: Any) -> Iterator[Connection]:
    """Connect for the enclosed lines.

    Within a task, the task leaves its thread of the worker to the tasks of the fit for that time.

    Parameters
    ----------
    client : object
        As in `connect`.

    Yields
    ------
    Connection
        Its client is closed after the lines if it was opened here and is not kept.

    Raises
    ------
    TypeError, ValueError, OSError
        As `connect`.
    """
    connection = connect(client)
    try:
        with thread_of_task_left():
            yield connection
    finally:
        connection.end()


def connect(client: Any) -> Connection:
    """Connect to the cluster that a user means.

    Parameters
    ----------
    client : distributed.Client, str, cluster or None
        A client, the address of a scheduler, a cluster such as `LocalCluster`, or None for the current client, or else
        the scheduler for which Dask is configured.

    Returns
    -------
    Connection
        A client is opened for addresses and clusters.

    Raises
    ------
    TypeError
        When `client` is nothing of that kind, or works asynchronously.
    ValueError
        When there is none, or it is closed.
    OSError
        When no scheduler answers at the address.
    """
    if client is None:
        return _current()
    if isinstance(client, str) or _is_cluster(client):
        return _opened(client)
    if isinstance(client, type) or not (isinstance(client, Client) or hasattr(client, "scheduler_info")):
        raise TypeError(f"client={client!r}: expected {_EXPECTED}")
    return Connection(_checked(client), opened=False)


def has_current_client() -> bool:
    """Whether Dask knows a cluster by itself: a client that is open, or a scheduler for which it is configured.

    Returns
    -------
    bool
    """
    try:
        get_client()
    except ValueError:
        return bool(dask.config.get("scheduler-address", None))
    return True


def address_of(client: Any) -> Any:
    """What another process can connect by.

    Parameters
    ----------
    client : object
        As in `connect`.

    Returns
    -------
    object
        Address of the scheduler of a client or a cluster, None of a client that is closed; anything else as it is.
    """
    if isinstance(client, Client):
        return None if client.scheduler is None else client.scheduler.address
    return client.scheduler_address if _is_cluster(client) else client


def _is_cluster(client: Any) -> bool:
    return not isinstance(client, Client) and isinstance(getattr(client, "scheduler_address", None), str)


def _current() -> Connection:
    """The client of this task or the one opened last, or else one of the scheduler that Dask is configured for."""
    try:
        return Connection(_checked(get_client()), opened=False)
    except ValueError as error:
        if not str(error).startswith("No global client"):
            raise
    address = dask.config.get("scheduler-address", None)
    if address:
        return _opened(str(address))
    raise ValueError(
        "client: there is none; open one before (client = distributed.Client() uses this machine, "
        "distributed.Client('tcp://host:8786') a cluster), or call fit_local, which needs no cluster"
    )


def _opened(target: Any) -> Connection:
    if not isinstance(target, str):
        _refuse_asynchronous(target, "cluster")
        if getattr(getattr(target, "status", None), "name", "") in _CLOSED:
            raise ValueError(f"client={target!r}: this cluster is closed; expected {_EXPECTED}")
    elif not target.strip():
        raise ValueError(f"client={target!r}: expected {_EXPECTED}")
    try:
        return Connection(ConnectedClient(target, set_as_default=False), opened=True)
    except OSError as error:
        raise OSError(f"client={target!r}: no scheduler answers there: {_first_line(error)}{_hint(error)}") from error
    except (ValueError, TypeError) as error:
        if str(target).startswith("tls://"):
            raise ValueError(
                f"client={target!r}: expected certificates in Dask's configuration (distributed.comm.tls), or a Client "
                f"that was given them ({_first_line(error)})"
            ) from error
        raise ValueError(f"client={target!r}: expected {_EXPECTED} ({_first_line(error)})") from error


def _hint(error: OSError) -> str:
    """What a server that hangs up at the first message may be; one that cannot be reached is a plain OSError."""
    if type(error) is not CommClosedError:
        return ""
    return "; the address of a scheduler that uses TLS begins with tls://, any other with tcp://"


def _checked(client: Client) -> Client:
    _refuse_asynchronous(client, "client")
    if getattr(client, "status", "") in _CLOSED:
        raise ValueError("client: this client is closed; expected one that is connected, open another")
    return client


def _refuse_asynchronous(target: Any, kind: str) -> None:
    """Calls of a client give coroutines in its own event loop, and wait for the answer in any other thread."""
    if getattr(target, "asynchronous", False):
        raise TypeError(
            f"client: an asynchronous {kind} (or one that is used inside its own event loop) cannot drive a fit here; "
            "call it in a thread (await asyncio.to_thread(fit_distributed, ...)), or pass a synchronous Client"
        )


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


@contextmanager
def thread_of_task_left() -> Iterator[None]:
    """Let another task have the thread for the enclosed lines, if this is a task that holds a thread of its worker.

    Yields
    ------
    None
    """
    if not _holds_a_thread():
        yield
        return
    secede()
    try:
        yield
    finally:
        rejoin()


def _holds_a_thread() -> bool:
    """Whether this is a task that has not left its thread, as those of `worker_client` have."""
    try:
        get_worker()
    except ValueError:
        return False
    return bool(getattr(thread_state, "proceed", False))
