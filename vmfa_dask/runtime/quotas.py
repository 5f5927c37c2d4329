"""CPU time that a container or a batch system grants to this process (cgroups of Linux, version 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# Where version 1 mounts its controller of CPU time; the order of the names differs between distributions.
_V1_MOUNTS = ("cpu,cpuacct", "cpuacct,cpu", "cpu")
# Version 2 alone, or beside version 1.
_V2_MOUNTS = ("", "unified")


def quota_of_cores(root: str = "/") -> float | None:
    """Cores whose CPU time this process may use.

    The smallest limit among the process's group and all groups around it, as the kernel applies all of them.

    Parameters
    ----------
    root : str
        Where ``proc`` and ``sys`` are found.

    Returns
    -------
    float or None
        A number that need not be whole; None where nothing limits it.
    """
    groups = Path(root, "sys/fs/cgroup")
    limits = [
        limit
        for version, path in _groups_of_process(Path(root))
        for mount in (_V1_MOUNTS if version == 1 else _V2_MOUNTS)
        for folder in _and_around(groups / mount, path)
        if (limit := (_limit_v1 if version == 1 else _limit_v2)(folder)) is not None
    ]
    return min(limits, default=None)


def _groups_of_process(root: Path) -> Iterator[tuple[int, str]]:
    """Version and path of each group that may limit CPU time, by lines such as ``4:cpu,cpuacct:/a/b`` or ``0::/a``."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if "cpu" in controllers.split(","):
            yield 1, path
        elif number == "0" and not controllers:
            yield 2, path


def _and_around(mount: Path, path: str) -> list[Path]:
    """Folders of a group and of those around it.

    A container may see the path that its host knows, and its own group at the mount: what is not there limits nothing.
    """
    parts = [part for part in PurePosixPath(path).parts if part not in ("/", "..")]
    return [mount.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]


def _limit_v1(folder: Path) -> float | None:
    return _ratio(_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us"))


def _limit_v2(folder: Path) -> float | None:
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    return _ratio(quota, period)


def _ratio(quota: str, period: str) -> float | None:
    """Cores; None for "max", -1 and what is no number."""
    try:
        microseconds, of = int(quota), int(period)
    except ValueError:
        return None
    return microseconds / of if microseconds > 0 and of > 0 else None


def _text(path: Path) -> str:
    """Text of a file, empty where there is none to read."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
