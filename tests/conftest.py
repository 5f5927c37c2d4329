"""Clusters and an object store that all tests share: starting processes and compiling kernels is most of their cost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from distributed import Client, LocalCluster

from tests.clusters import local_cluster
from tests.objects import environment_of, make_bucket, object_server


@pytest.fixture(scope="session")
def process_cluster() -> Iterator[LocalCluster]:
    """Two worker processes of one thread each."""
    with local_cluster(2) as cluster:
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
        local_cluster(1, 2, processes=False) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def server() -> Iterator[int]:
    """The port of an S3 server."""
    with object_server() as port:
        yield port


@pytest.fixture
def bucket(server: int) -> Iterator[str]:
    """The URL of a new bucket, which this process and those that it starts can open."""
    with environment_of(server):
        yield make_bucket(server)
