"""Versions of the packages that compute: the client's are compared with those of every worker, early and late ones.

`Client.get_versions` tells them, except that of this package: a checkout on the path has none among the installed
packages. May import: cluster, distributed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

from distributed import Client

from vmfa_dask.cluster.workers import is_loss_of_worker

logger = logging.getLogger(__name__)

PACKAGE = "vmfa_dask"
OTHERS = ("numpy", "numba", "zarr")
_MOST_LINES = 20
# `pkgutil.resolve_name` finds this on a worker: a function of this module would need this module there.
_OWN_VERSION = f"{PACKAGE}:__version__"


def version_here() -> str:
    """Version of this package in this process.

    Returns
    -------
    str
        As `vmfa_dask.__version__`.
    """
    return str(resolve_name(_OWN_VERSION))


def check_versions(client: Client, warn: bool = True) -> None:
    """Compare the versions of packages on the client with those of all workers that are there now.

    Other versions of numpy, numba and zarr are allowed, and logged as one warning.

    Parameters
    ----------
    client : distributed.Client
        Each worker is asked twice, in some milliseconds.
    warn : bool
        Whether to log versions of other packages that differ.

    Raises
    ------
    RuntimeError
        When a worker has another version of this package, or when a package is missing there or here. The message is a
        table: package, version of the client, version and address of each worker that differs.
    """
    here, by_worker = _all_versions(client)
    differing = _differing(here, by_worker)
    if not differing:
        return
    if any(name == PACKAGE or version is None or here[name] is None for name, _, version in differing):
        raise RuntimeError(
            f"client and workers need the same version of {PACKAGE}, and all packages that it uses; install them, and "
            f"restart the workers:\n{_table(here, differing)}"
        )
    if not warn:
        return
    logger.warning(
        "client and workers have different versions of packages; a run may work, but other versions of numba or numpy "
        "can round differently, and then its results are not reproducible to the bit:\n%s",
        _table(here, differing),
    )


def _all_versions(client: Client) -> tuple[dict[str, str | None], dict[str, dict[str, str | None]]]:
    """Versions by package of this process, and of each worker that has answered both questions."""
    own = client.run(resolve_name, _OWN_VERSION, on_error="return")
    answers: Any = client.get_versions(packages=[*OTHERS])
    here = {PACKAGE: version_here(), **_others(answers["client"])}
    by_worker = {
        worker: {PACKAGE: _own_version(own[worker]), **_others(versions)}
        for worker, versions in answers["workers"].items()
        if worker in own and not is_loss_of_worker(own[worker])
    }
    return here, by_worker


def _others(versions: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: versions["packages"][name] for name in OTHERS}


def _own_version(answer: Any) -> str | None:
    """Version of this package on a worker, None where it is not installed; what is wrong where it does not import."""
    if isinstance(answer, MemoryError):
        raise answer
    if isinstance(answer, ModuleNotFoundError) and answer.name == PACKAGE:
        return None
    if isinstance(answer, Exception):
        return f"broken ({type(answer).__name__}: {answer})"
    return str(answer)


def _differing(
    here: Mapping[str, str | None], by_worker: Mapping[str, Mapping[str, str | None]]
) -> list[tuple[str, str, str | None]]:
    """(package, worker, its version) for all that differs, package by package in the order of `here`."""
    return [
        (name, worker, by_worker[worker][name])
        for name, version in here.items()
        for worker in sorted(by_worker)
        if by_worker[worker][name] != version or version is None
    ]


def _table(here: Mapping[str, str | None], differing: list[tuple[str, str, str | None]]) -> str:
    """One line for each package and worker that differs; a long table is cut."""
    cells = [("package", "client", "worker")]
    for name, worker, version in differing[:_MOST_LINES]:
        cells.append((name, here[name] or "not installed", f"{version or 'not installed'} on worker {worker}"))
    widths = [max(len(row[column]) for row in cells) for column in range(2)]
    lines = [f"  {name:{widths[0]}}  {client:{widths[1]}}  {worker}".rstrip() for name, client, worker in cells]
    if len(differing) > _MOST_LINES:
        lines.append(f"  and {len(differing) - _MOST_LINES} more")
    return "\n".join(lines)
