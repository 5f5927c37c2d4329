"""Where a command works: a client of the cluster that its options name. May import: command, cluster, click."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import click

from vmfa_dask.command.messages import suggestion

_TRANSPORTS = ("tcp", "tls", "ws", "wss", "ucx", "inproc")


@dataclass(frozen=True)
class Cluster:
    """Values of `options.cluster_options`.

    Parameters
    ----------
    scheduler : str or None
        Address of a scheduler; None for a cluster on this machine.
    tls_ca, tls_cert, tls_key : str or None
        Credentials for a ``tls://`` scheduler.
    workers : int or None
        Worker processes on this machine; None for a cluster inside this process.
    threads : int or None
        Threads of each worker.
    memory_limit : int, str or None
        Memory of each worker on this machine.
    """

    scheduler: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    workers: int | None = None
    threads: int | None = None
    memory_limit: int | str | None = None

    @classmethod
    def taken_from(cls, options: MutableMapping[str, Any]) -> Cluster:
        """Take the values out of those of a command.

        Parameters
        ----------
        options : dict
            Values by name; those of a cluster are removed.

        Returns
        -------
        Cluster

        Raises
        ------
        click.UsageError
            When they contradict one another.
        """
        return cls(**{field.name: options.pop(field.name, None) for field in fields(cls)}).checked()

    def checked(self) -> Cluster:
        """The same, if options do not contradict one another.

        Returns
        -------
        Cluster

        Raises
        ------
        click.UsageError
            Naming the option, what was found and what is expected.
        """
        credentials = (self.tls_ca, self.tls_cert, self.tls_key)
        transport, separator, _ = (self.scheduler or "").partition("://")
        if separator and transport not in _TRANSPORTS:
            meant = suggestion(transport, _TRANSPORTS)
            raise click.UsageError(f"--scheduler {self.scheduler}: no such transport as {transport}://{meant}")
        if self.scheduler is not None:
            for name in ("workers", "memory_limit"):
                if getattr(self, name) is not None:
                    flag = f"--{name.replace('_', '-')}"
                    raise click.UsageError(f"{flag} is for clusters on this machine; leave it out with --scheduler")
        if any(credentials):
            if not all(credentials):
                raise click.UsageError("expected --tls-ca, --tls-cert and --tls-key together")
            if transport != "tls":
                raise click.UsageError(f"--scheduler {self.scheduler or ''}: expected tls://host:port with --tls-ca")
        return self

    def worker_memory(self) -> int | None:
        """Memory limit of a worker on this machine.

        Returns
        -------
        int or None
            Bytes; None is no limit.

        Raises
        ------
        click.UsageError
            When ``--memory-limit`` is no number of bytes.
        """
        from vmfa_dask.cluster.opening import memory_limit_here

        try:
            return memory_limit_here(self.workers, self.memory_limit)
        except ValueError as error:
            raise click.UsageError(f"--memory-limit {self.memory_limit}: {error}") from error

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Open a cluster, or connect to one, during the enclosed lines.

        Yields
        ------
        distributed.Client
            Of the cluster.

        Raises
        ------
        OSError
            When no scheduler answers.
        """
        with self.client_if_asked() as client:
            if client is not None:
                yield client
                return
            from vmfa_dask.cluster.opening import local_client

            with local_client(self.workers, self.threads, self.worker_memory() or 0) as local:
                yield local

    @contextmanager
    def client_if_asked(self) -> Iterator[Any]:
        """Connect to the scheduler during the enclosed lines, if there is one.

        Yields
        ------
        distributed.Client or None
            None without ``--scheduler``.

        Raises
        ------
        OSError
            When no scheduler answers.
        """
        if self.scheduler is None:
            yield None
        elif self.tls_ca is not None:
            from vmfa_dask.cluster.opening import secured_client, security_of

            with secured_client(self.scheduler, security_of(self.tls_ca, self.tls_cert, self.tls_key)) as client:
                yield client
        else:
            from vmfa_dask.cluster.clients import connected

            with connected(self.scheduler) as connection:
                yield connection.client
