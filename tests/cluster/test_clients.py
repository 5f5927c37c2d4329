"""Clients that cannot connect are closed at once."""

from __future__ import annotations

import gc

import dask
import pytest

from vmfa_dask.cluster.clients import ConnectedClient, connect


@pytest.mark.parametrize(
    "address", ["tls://127.0.0.1:1", "tcp://127.0.0.1:1", "http://127.0.0.1:1", "127.0.0.1:70000", "tcp://"]
)
def test_no_client_stays_half_open(address: str) -> None:
    """The garbage collector would close it, maybe while another one starts, which then waits for ever."""
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises((OSError, ValueError), match=rf"^client='{address}'") as refusal,
    ):
        connect(address)
    assert refusal.traceback, "what failed is alive"
    clients = [thing for thing in gc.get_objects() if type(thing) is ConnectedClient]
    assert clients
    assert all(client.status == "closed" for client in clients)
