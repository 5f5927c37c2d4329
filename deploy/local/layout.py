"""How worker processes are laid out on a machine, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass

from deploy.local.machine import Machine

# The rest is for the operating system, the scheduler and the driver.
_SHARE_OF_MEMORY = 0.85
_MIB = 2**20


@dataclass(frozen=True)
class WorkerPlan:
    """One worker process.

    Parameters
    ----------
    node : int
        NUMA node on whose cores it runs.
    cores : tuple of int
        Cores it is bound to.
    threads : int
        Its threads, no more than its cores.
    memory_limit : int
        Bytes.
    """

    node: int
    cores: tuple[int, ...]
    threads: int
    memory_limit: int


@dataclass(frozen=True)
class Layout:
    """Worker processes of a machine.

    Parameters
    ----------
    workers : tuple of WorkerPlan
        One per NUMA node.
    reasons : tuple of str
        A sentence for each choice.
    """

    workers: tuple[WorkerPlan, ...]
    reasons: tuple[str, ...]


def recommend(machine: Machine) -> Layout:
    """Lay out the workers: one process per NUMA node, with a thread for each of its cores.

    Parameters
    ----------
    machine : Machine
        What the process may use.

    Returns
    -------
    Layout
        Threads do not exceed the quota of CPU time, and memory limits leave 15 % of the memory to others.
    """
    n_cores = sum(len(node.cores) for node in machine.nodes)
    quota = n_cores if machine.quota is None else min(n_cores, math.ceil(machine.quota))
    one_process = quota < len(machine.nodes)
    groups = (
        [(machine.nodes[0].number, tuple(c for node in machine.nodes for c in node.cores), machine.memory)]
        if one_process
        else [(node.number, node.cores, node.memory) for node in machine.nodes]
    )
    threads = _shares(quota, [len(cores) for _, cores, _ in groups])
    total = sum(memory for _, _, memory in groups) or 1
    # A container may have less than its nodes; none of its processes gets more than its node has.
    scale = min(1.0, machine.memory / total) * _SHARE_OF_MEMORY
    workers = tuple(
        WorkerPlan(node, cores, n, int(memory * scale) // _MIB * _MIB)
        for (node, cores, memory), n in zip(groups, threads, strict=True)
    )
    return Layout(workers, tuple(_reasons(machine, n_cores, quota, one_process)))


def _shares(total: int, sizes: list[int]) -> list[int]:
    """Whole numbers that sum to `total`, about in proportion to `sizes`, none above its size and none 0."""
    shares = [max(1, min(size, total * size // sum(sizes))) for size in sizes]
    for k in sorted(range(len(sizes)), key=lambda k: shares[k] - total * sizes[k] / sum(sizes)):
        shares[k] += min(max(0, total - sum(shares)), sizes[k] - shares[k])
    return shares


def _reasons(machine: Machine, n_cores: int, quota: int, one_process: bool) -> list[str]:
    reasons = [
        f"{n_cores} cores in the affinity mask"
        + (f", of which the quota of CPU time grants {machine.quota:g}" if quota < n_cores else "")
        + f": {quota} {'thread' if quota == 1 else 'threads'} that compute."
    ]
    if len(machine.nodes) == 1:
        reasons.append(
            "One NUMA node, so one process: kernels release the GIL, and one process packs the parameters once. Two "
            "processes of one core took 1.25 times as long as one of two (docs/results/benchmarks.md)."
        )
    elif one_process:
        reasons.append(f"Fewer cores of CPU time than its {len(machine.nodes)} NUMA nodes, so one process.")
    else:
        reasons.append(
            f"{len(machine.nodes)} NUMA nodes, so one process on each: its parameters, sums and rows stay in its "
            "memory (not measured: the machines of docs/results have one node)."
        )
    reasons.append(
        f"{_SHARE_OF_MEMORY:.0%} of {machine.memory / 2**30:.1f} GiB for workers. A fit that would need more than 80% "
        "of a limit is refused before its first task, and half of what remains below that caches rows."
    )
    return reasons
