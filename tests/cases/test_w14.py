"""W14: versions of packages that differ between client and workers are named before the run, in one table."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
import pytest
from distributed import Client

import vmfa_dask
from tests.clusters import local_cluster
from vmfa_dask.cluster import package_versions
from vmfa_dask.cluster.package_versions import check_versions


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A client of two worker processes of its own, as they are changed here."""
    with (
        local_cluster(2) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def workers_of(client: Client) -> list[str]:
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


@contextmanager
def changed(client: Client, worker: str, change: Callable[..., None], undo: Callable[..., None], *args: Any) -> Any:
    """One worker in another condition."""
    client.run(change, *args, workers=[worker])
    try:
        yield
    finally:
        client.run(undo, *args, workers=[worker])


def with_version(client: Client, worker: str, package: str, version: str | None) -> Any:
    """One worker that has another version of a package, or none at all."""
    return (with_own_version if package == "vmfa_dask" else with_other_version)(client, worker, package, version)


def with_own_version(client: Client, worker: str, package: str, version: str | None) -> Any:
    def change(package: str, version: str | None) -> None:
        import sys

        class Absent:
            def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
                if name.split(".")[0] == package:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        kept: Any = sys
        kept.kept_by_test = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == package}
        finder: Any = Absent()
        if version is None:
            sys.meta_path.insert(0, finder)
        else:
            module: Any = type(sys)(package)
            module.__version__ = version
            sys.modules[package] = module

    def undo(package: str, version: str | None) -> None:
        import sys

        kept: Any = sys
        if version is None:
            del sys.meta_path[0]
        sys.modules.pop(package, None)
        sys.modules.update(kept.kept_by_test)

    return changed(client, worker, change, undo, package, version)


def with_other_version(client: Client, worker: str, package: str, version: str | None) -> Any:
    def change(package: str, version: str | None, dask_worker: Any) -> None:
        original = dask_worker.handlers["versions"]

        def versions(packages: Any = None) -> dict[str, Any]:
            found = original(packages=packages)
            found["packages"][package] = version
            return found

        versions.original = original
        dask_worker.handlers["versions"] = versions

    def undo(package: str, version: str | None, dask_worker: Any) -> None:
        dask_worker.handlers["versions"] = dask_worker.handlers["versions"].original

    return changed(client, worker, change, undo, package, version)


def lines_of(message: str) -> list[str]:
    """Lines of the table of a message, with single spaces."""
    return [re.sub(" +", " ", line).strip() for line in message.splitlines()[1:]]


def test_equal_versions_pass_in_silence_and_at_once(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    seconds = []
    with caplog.at_level(logging.DEBUG, logger="vmfa_dask"):
        for _ in range(5):  # the machine may be busy with something else at one time
            begin = time.perf_counter()
            check_versions(client)
            seconds.append(time.perf_counter() - begin)
    assert min(seconds) < 0.05
    assert not caplog.records


def test_workers_in_this_process_pass(in_process: Client) -> None:
    check_versions(in_process)


def test_another_version_on_one_worker_is_refused(client: Client) -> None:
    worker = workers_of(client)[1]
    with with_version(client, worker, "vmfa_dask", "0.0.9"), pytest.raises(RuntimeError, match="same version") as found:
        check_versions(client)
    assert lines_of(str(found.value)) == [
        "package client worker",
        f"vmfa_dask {vmfa_dask.__version__} 0.0.9 on worker {worker}",
    ]
    check_versions(client)


@pytest.mark.parametrize("package", ["vmfa_dask", "numba"])
def test_a_missing_package_is_refused(client: Client, package: str) -> None:
    worker, here = workers_of(client)[0], {"vmfa_dask": vmfa_dask.__version__, "numba": numba.__version__}[package]
    with (
        with_version(client, worker, package, None),
        pytest.raises(RuntimeError, match="all packages that it uses; install them") as found,
    ):
        check_versions(client)
    assert lines_of(str(found.value)) == ["package client worker", f"{package} {here} not installed on worker {worker}"]
    check_versions(client)


def test_a_package_that_cannot_be_imported_is_refused(client: Client) -> None:
    worker = workers_of(client)[0]

    def change() -> None:
        import sys

        class Broken:
            def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
                if name == "vmfa_dask":
                    raise ImportError("libfoo.so: cannot open")

        kept: Any = sys
        kept.kept_by_test = sys.modules.pop("vmfa_dask", None)
        finder: Any = Broken()
        sys.meta_path.insert(0, finder)

    def undo() -> None:
        import sys

        kept: Any = sys
        del sys.meta_path[0]
        if kept.kept_by_test is not None:
            sys.modules["vmfa_dask"] = kept.kept_by_test

    message = rf"broken \(ImportError: libfoo\.so: cannot open\) on worker {worker}"
    with changed(client, worker, change, undo), pytest.raises(RuntimeError, match=message):
        check_versions(client)


def test_other_packages_are_one_warning(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    first, second = workers_of(client)
    with (
        with_version(client, first, "numba", "0.61.0"),
        with_version(client, second, "numpy", "2.0.1"),
        caplog.at_level(logging.DEBUG, logger="vmfa_dask"),
    ):
        check_versions(client)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "numba or numpy can round differently" in record.getMessage()
    assert lines_of(record.getMessage()) == [
        "package client worker",
        f"numpy {np.__version__} 2.0.1 on worker {second}",
        f"numba {numba.__version__} 0.61.0 on worker {first}",
    ]


def test_our_package_and_others_are_one_error(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    first, second = workers_of(client)
    with (
        with_version(client, first, "zarr", "3.0.8"),
        with_version(client, second, "vmfa_dask", "7.0"),
        pytest.raises(RuntimeError, match="same version") as found,
    ):
        check_versions(client)
    assert [line.split()[0] for line in lines_of(str(found.value))] == ["package", "vmfa_dask", "zarr"]
    assert not caplog.records


def test_a_long_table_is_cut(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    monkeypatch.setattr(vmfa_dask, "__version__", "7.0")
    monkeypatch.setattr(package_versions, "_MOST_LINES", 1)
    with pytest.raises(RuntimeError, match="and 1 more") as found:
        check_versions(client)
    assert len(lines_of(str(found.value))) == 3
