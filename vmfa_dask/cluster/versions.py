"""Versions of the packages that compute: those of every worker are compared with the client's before a run, and later
those of workers that have come.

May import: distributed, cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from distributed import Client

from vmfa_dask.cluster.workers import ask

logger = logging.getLogger(__name__)

PACKAGE = "vmfa_dask"
OTHERS = ("numpy", "numba", "zarr")
_MOST_LINES = 20

# `Client.get_versions` knows installed packages alone: a checkout on the path has no version there, a package whose
# import fails has one, and answers are cached. This is sent as text: a function of this module would need this module
# on the worker, and one that is pickled by value carries bytecode, which another Python cannot run. Loaded modules
# count before installed ones, and only our package, which loads nothing else, is imported: numba would take a second.
_SOURCE = '''
import importlib, importlib.metadata, sys

def version(name, load):
    """Version of a package in this process; None when it is not installed."""
    try:
        module = importlib.import_module(name) if load else sys.modules.get(name)
        return str(getattr(module, "__version__", None) or importlib.metadata.version(name))
    except MemoryError:
        raise
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        return None if missing else f"broken ({type(error).__name__}: {error})"
'''
_EXPRESSION = (
    f"(lambda scope: exec({_SOURCE!r}, scope) or "
    f"{{name: scope['version'](name, name == {PACKAGE!r}) for name in {(PACKAGE, *OTHERS)!r}}})({{}})"
)


def version_here() -> str:
    """Version of this package in this process."""
    return str(eval(_EXPRESSION)[PACKAGE])


def check_versions(client: Client, warn: bool = True) -> None:
    """Compare the versions of packages on the client with those of all workers that are there now.

    Other versions of the other packages are allowed, and logged as one warning.

    Parameters
    ----------
    client : of the cluster; each worker is asked once, in some milliseconds
    warn : whether to log versions of other packages that differ

    Raises
    ------
    RuntimeError
        When a worker has another version of this package, or when a package is missing there or here. The message is a
        table: package, version of the client, version and address of each worker that differs.
    """
    here: dict[str, str | None] = eval(_EXPRESSION)
    there: dict[str, dict[str, str | None]] = ask(client, eval, _EXPRESSION)
    differing = _differing(here, there)
    if not differing:
        return
    if any(name == PACKAGE or found is None or here[name] is None for name, _, found in differing):
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


def _differing(
    here: Mapping[str, str | None], there: Mapping[str, Mapping[str, str | None]]
) -> list[tuple[str, str, str | None]]:
    """(package, worker, its version) for all that differs, package by package in the order of `here`."""
    return [
        (name, worker, there[worker][name])
        for name, version in here.items()
        for worker in sorted(there)
        if there[worker][name] != version or version is None
    ]


def _table(here: Mapping[str, str | None], differing: list[tuple[str, str, str | None]]) -> str:
    """One line for each package and worker that differs; a long table is cut."""
    cells = [("package", "client", "worker")]
    for name, worker, found in differing[:_MOST_LINES]:
        cells.append((name, here[name] or "not installed", f"{found or 'not installed'} on worker {worker}"))
    widths = [max(len(row[column]) for row in cells) for column in range(2)]
    lines = [f"  {name:{widths[0]}}  {client:{widths[1]}}  {worker}".rstrip() for name, client, worker in cells]
    if len(differing) > _MOST_LINES:
        lines.append(f"  and {len(differing) - _MOST_LINES} more")
    return "\n".join(lines)
