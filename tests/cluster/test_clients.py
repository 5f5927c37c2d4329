"""Clients that cannot connect are closed at once, whoever opens them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest

from tests.cluster.test_tls import make_certificates
from vmfa_dask.cluster.clients import ConnectedClient, connect
from vmfa_dask.cluster.opening import secured_client, security_of
from vmfa_dask.command import main


@pytest.fixture(autouse=True)
def all_clients_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The garbage collector would close one, maybe while another one starts, which then waits for ever."""
    opened: list[ConnectedClient] = []
    start = ConnectedClient.start

    def noted(client: ConnectedClient, **options: Any) -> None:
        opened.append(client)
        start(client, **options)

    monkeypatch.setattr(ConnectedClient, "start", noted)
    yield
    assert [client.status for client in opened] == ["closed"]


@pytest.mark.parametrize(
    "address", ["tls://127.0.0.1:1", "tcp://127.0.0.1:1", "http://127.0.0.1:1", "127.0.0.1:70000", "tcp://"]
)
def test_no_client_stays_half_open(address: str) -> None:
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises((OSError, ValueError), match=rf"^client='{address}'"),
    ):
        connect(address)


def test_no_client_with_credentials_stays_half_open(tmp_path: Path) -> None:
    folder = make_certificates(tmp_path / "certificates")
    security = security_of(*(str(folder / name) for name in ("ca.pem", "cert.pem", "key.pem")))
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(OSError, match=r"^scheduler tls://127\.0\.0\.1:1: none answers there"),
        secured_client("tls://127.0.0.1:1", security),
    ):
        pass


@pytest.mark.parametrize("command", ["fit", "prepare"])
def test_commands_leave_no_client_half_open(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.npy"
    np.save(rows, np.zeros((20, 3), np.float32))
    words = {
        "fit": ["fit", str(rows), "--n-components", "2", "--output", str(tmp_path / "m.zarr")],
        "prepare": ["prepare", "arrays", str(rows), str(tmp_path / "rows.zarr")],
    }[command]
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        assert main([*words, "--scheduler", "tcp://127.0.0.1:1"]) == 1
    assert "no scheduler answers there" in capsys.readouterr().err
