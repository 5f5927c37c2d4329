"""Schedulers and workers with TLS: fits through them, and what others are told that have no valid certificate."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import zarr
from distributed import Client
from distributed.security import Security

from tests.programs import ROOT
from tests.samples import draw, make_mixture
from vmfa_dask import fit_distributed, fit_local

ROWS = draw(make_mixture(5, 8, 3), 400, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 6, "n_factors": 3, "n_groups": 3, "max_iter": 2, "max_warmup_iter": 2}
# A refusal is immediate; Dask's own limit for a connection is 30 s.
SECONDS_OF_REFUSAL = 10.0


def make_certificates(folder: Path) -> Path:
    command = ["sh", str(ROOT / "deploy" / "tls" / "make_certificates.sh"), str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return folder


def security_of(folder: Path) -> Security:
    return Security(
        tls_ca_file=str(folder / "ca.pem"),
        tls_client_cert=str(folder / "cert.pem"),
        tls_client_key=str(folder / "key.pem"),
        require_encryption=True,
    )


@contextmanager
def dask_process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler or worker on loopback that ends with the block."""
    arguments = [*command, "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def scheduler_at(file: Path, *options: str) -> Iterator[str]:
    """The address of a scheduler."""
    with dask_process("scheduler", "--port", "0", "--scheduler-file", str(file), *options) as process:
        deadline = time.monotonic() + 60
        while not file.exists():
            assert process.poll() is None, "the scheduler ended"
            assert time.monotonic() < deadline, "the scheduler does not answer"
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls") / "certificates")


@pytest.fixture(scope="module")
def scheduler(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with TLS that has one worker."""
    folder = tmp_path_factory.mktemp("cluster")
    options = ["--protocol", "tls"]
    for name, file in {"ca-file": "ca.pem", "cert": "cert.pem", "key": "key.pem"}.items():
        options += [f"--tls-{name}", str(certificates / file)]
    worker = ["worker", "--nworkers", "1", "--nthreads", "1", "--memory-limit", "2 GiB", "--no-dashboard"]
    with (
        scheduler_at(folder / "scheduler.json", *options) as address,
        dask_process(*worker, *options, "--local-directory", str(folder), address),
    ):
        yield address


def test_a_fit_through_tls_has_the_bytes_of_a_local_one(scheduler: str, certificates: Path, tmp_path: Path) -> None:
    assert scheduler.startswith("tls://")
    store = str(tmp_path / "rows.zarr")
    zarr.create_array(store, data=ROWS, chunks=(100, 8))
    with Client(scheduler, security=security_of(certificates), set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        assert all(worker.startswith("tls://") for worker in client.scheduler_info()["workers"])
        fit = fit_distributed(store, client=client, **OPTIONS)
    np.testing.assert_array_equal(fit.model.means, fit_local(store, **OPTIONS).model.means)


def test_an_address_is_enough_where_dask_is_configured(scheduler: str, certificates: Path) -> None:
    environment = {
        "distributed.comm.tls.ca-file": str(certificates / "ca.pem"),
        "distributed.comm.tls.client.cert": str(certificates / "cert.pem"),
        "distributed.comm.tls.client.key": str(certificates / "key.pem"),
    }
    with dask.config.set(environment):
        assert fit_distributed(ROWS, client=scheduler, **OPTIONS).model.n_components == 6


def test_the_environment_script_configures_dask(certificates: Path) -> None:
    program = "from distributed.security import Security; print(Security().get_tls_config_for_role('worker'))"
    script = f'. {ROOT}/deploy/tls/environment.sh {certificates.name}; exec "$0" -c "$1"'
    done = subprocess.run(
        ["bash", "-euc", script, sys.executable, program],
        cwd=certificates.parent,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert str(certificates / "key.pem") in done.stdout


@contextmanager
def refused(kind: type[Exception], words: str) -> Iterator[None]:
    start = time.monotonic()
    with pytest.raises(kind, match=words):
        yield
    assert time.monotonic() - start < SECONDS_OF_REFUSAL


def test_a_certificate_of_another_authority_is_refused_at_once(scheduler: str, tmp_path: Path) -> None:
    other = make_certificates(tmp_path / "other")
    configuration = {
        "distributed.comm.tls.ca-file": str(other / "ca.pem"),
        "distributed.comm.tls.client.cert": str(other / "cert.pem"),
        "distributed.comm.tls.client.key": str(other / "key.pem"),
    }
    with dask.config.set(configuration), refused(OSError, f"client='{scheduler}'.*TLS certificate does not match"):
        fit_distributed(ROWS, client=scheduler, **OPTIONS)


def test_a_stranger_that_trusts_the_scheduler_gets_no_further(
    scheduler: str, certificates: Path, tmp_path: Path
) -> None:
    """A certificate that the scheduler does not trust, beside the authority that it does: the scheduler hangs up."""
    other = make_certificates(tmp_path / "other")
    security = Security(
        tls_ca_file=str(certificates / "ca.pem"),
        tls_client_cert=str(other / "cert.pem"),
        tls_client_key=str(other / "key.pem"),
        require_encryption=True,
    )
    with refused(OSError, "unknown ca|closed|reset"):
        Client(scheduler, security=security, set_as_default=False, timeout=SECONDS_OF_REFUSAL / 2)


def test_no_certificate_is_named_at_once(scheduler: str) -> None:
    with refused(ValueError, f"client='{scheduler}': expected certificates in Dask's configuration"):
        fit_distributed(ROWS, client=scheduler, **OPTIONS)


def test_plain_tcp_is_refused_at_once_and_tls_is_named(scheduler: str) -> None:
    plain = scheduler.replace("tls://", "tcp://")
    with refused(OSError, f"client='{plain}'.*begins with tls://"):
        fit_distributed(ROWS, client=plain, **OPTIONS)


def test_a_worker_without_a_certificate_does_not_join(scheduler: str, tmp_path: Path) -> None:
    plain = scheduler.replace("tls://", "tcp://")
    command = ["worker", "--nthreads", "1", "--no-nanny", "--death-timeout", "3", "--local-directory", str(tmp_path)]
    with dask_process(*command, "--memory-limit", "1 GiB", plain) as worker:
        assert worker.wait(60) != 0


def test_certificates_are_private_and_never_replaced(certificates: Path) -> None:
    assert all(path.stat().st_mode & 0o077 == 0 for path in [certificates, *certificates.iterdir()])
    assert {path.name for path in certificates.iterdir()} == {"ca.pem", "cert.pem", "key.pem"}
    before = (certificates / "key.pem").read_bytes()
    with pytest.raises(subprocess.CalledProcessError):
        make_certificates(certificates)
    assert (certificates / "key.pem").read_bytes() == before
