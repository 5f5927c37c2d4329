"""Clusters that all tests share: starting processes and compiling kernels once is most of the cost of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from distributed import Client, LocalCluster

MEMORY = "2 GiB"


@pytest.fixture(scope="session")
def process_cluster() -> Iterator[LocalCluster]:
    """Two worker processes of one thread each."""
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        memory_limit=MEMORY,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
    ) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def processes(process_cluster: LocalCluster) -> Iterator[Client]:
    """A client of the cluster of two processes; never the default client."""
    with Client(process_cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="session")
def in_process() -> Iterator[Client]:
    """A client of a cluster inside this process: one worker of two threads."""
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, memory_limit=MEMORY, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
