"""What this process may use of the machine: cores by affinity and quota, NUMA nodes, and memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from distributed.system import MEMORY_LIMIT

from vmfa_dask.runtime.quotas import quota_of_cores


@dataclass(frozen=True)
class Node:
    """One NUMA node: cores that share a memory.

    Parameters
    ----------
    number : int
        The kernel's number of the node.
    cores : tuple of int
        Numbers of its cores that this process may run on.
    memory : int
        Bytes of its memory.
    """

    number: int
    cores: tuple[int, ...]
    memory: int


@dataclass(frozen=True)
class Machine:
    """What this process may use.

    Parameters
    ----------
    nodes : tuple of Node
        The NUMA nodes with cores of this process, at least one.
    quota : float or None
        Cores of CPU time that a container or batch system grants; None without such a limit.
    memory : int
        Bytes that the process may use, on all nodes.
    """

    nodes: tuple[Node, ...]
    quota: float | None
    memory: int


def this_machine(root: str = "/", cores: Iterable[int] | None = None, memory: int | None = None) -> Machine:
    """Look at the machine.

    Parameters
    ----------
    root : str
        Where ``sys`` and ``proc`` are found.
    cores : iterable of int, optional
        Cores that the process may run on, by default those of its affinity mask.
    memory : int, optional
        Bytes that it may use, by default those of the machine, or of the limit of its control group.

    Returns
    -------
    Machine
        With one node where the kernel tells of none.
    """
    allowed = set(os.sched_getaffinity(0) if cores is None else cores)
    limit = MEMORY_LIMIT if memory is None else memory
    nodes = tuple(
        Node(int(folder.name.removeprefix("node")), tuple(sorted(used)), _memory_of(folder))
        for folder in sorted(Path(root, "sys/devices/system/node").glob("node[0-9]*"), key=_number)
        if (used := cores_in(_text(folder / "cpulist")) & allowed)
    )
    if {core for node in nodes for core in node.cores} != allowed:
        nodes = (Node(0, tuple(sorted(allowed)), limit),)
    return Machine(nodes, quota_of_cores(root), limit)


def cores_in(text: str) -> set[int]:
    """Numbers in a list of the kernel.

    Parameters
    ----------
    text : str
        Such as ``0-3,8``.

    Returns
    -------
    set of int
    """
    numbers: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _number(folder: Path) -> int:
    return int(re.sub(r"\D", "", folder.name))


def _memory_of(folder: Path) -> int:
    match = re.search(r"MemTotal:\s+(\d+) kB", _text(folder / "meminfo"))
    return int(match[1]) * 1024 if match else 0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
