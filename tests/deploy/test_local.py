"""A cluster on one machine: the layout for made-up machines, and a real one from start to end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from distributed import Client

from deploy.local.__main__ import description
from deploy.local.layout import recommend
from deploy.local.machine import Machine, Node, cores_in, this_machine
from tests.programs import ROOT

GIB = 2**30
SECONDS = 90.0


def two_nodes(quota: float | None = None, memory: int = 100 * GIB) -> Machine:
    return Machine((Node(0, (0, 1, 2, 3), 60 * GIB), Node(1, (4, 5, 6, 7), 40 * GIB)), quota, memory)


def write_nodes(root: Path, lists: dict[int, str], quota: str = "max 100000") -> str:
    for number, cores in lists.items():
        folder = root / "sys/devices/system/node" / f"node{number}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cores + "\n")
        (folder / "meminfo").write_text(f"Node {number} MemTotal:       1048576 kB\n")
    for path, text in {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": quota}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return str(root)


def test_one_node_gets_one_process_with_all_cores() -> None:
    (worker,) = recommend(Machine((Node(0, tuple(range(16)), 64 * GIB),), None, 64 * GIB)).workers
    assert (worker.threads, worker.cores) == (16, tuple(range(16)))
    assert 0.84 * 64 * GIB < worker.memory_limit < 0.86 * 64 * GIB


def test_each_node_gets_a_process_of_its_own_cores_and_memory() -> None:
    first, second = recommend(two_nodes()).workers
    assert (first.cores, second.cores) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert (first.threads, second.threads) == (4, 4)
    assert first.memory_limit / second.memory_limit == pytest.approx(1.5, rel=1e-3)


def test_a_container_with_less_memory_than_its_nodes_bounds_the_limits() -> None:
    layout = recommend(two_nodes(memory=10 * GIB))
    assert 8 * GIB < sum(worker.memory_limit for worker in layout.workers) < 8.6 * GIB


@pytest.mark.parametrize(("quota", "threads"), [(8.0, [4, 4]), (5.0, [3, 2]), (2.5, [2, 1]), (2.0, [1, 1]), (1.0, [1])])
def test_threads_follow_the_quota(quota: float, threads: list[int]) -> None:
    layout = recommend(two_nodes(quota))
    assert sorted((worker.threads for worker in layout.workers), reverse=True) == threads
    assert all(worker.threads <= len(worker.cores) for worker in layout.workers)
    assert ("quota" in layout.reasons[0]) == (quota < 8)


def test_nodes_of_different_sizes_share_a_quota_by_size() -> None:
    machine = Machine((Node(0, (0,), GIB), Node(1, tuple(range(1, 10)), GIB)), 6.0, 2 * GIB)
    assert [worker.threads for worker in recommend(machine).workers] == [1, 5]


def test_the_kernels_lists_are_read(tmp_path: Path) -> None:
    assert cores_in("0-3,8,10-11\n") == {0, 1, 2, 3, 8, 10, 11}
    root = write_nodes(tmp_path, {0: "0-1", 1: "2-3", 2: "4-5", 10: ""}, "150000 100000")
    machine = this_machine(root, cores=[1, 2, 3], memory=GIB)
    assert machine.nodes == (Node(0, (1,), GIB), Node(1, (2, 3), GIB))
    assert (machine.quota, machine.memory) == (1.5, GIB)


def test_a_machine_that_does_not_tell_of_its_nodes_is_one_node(tmp_path: Path) -> None:
    assert this_machine(str(tmp_path), cores=[5, 4], memory=GIB).nodes == (Node(0, (4, 5), GIB),)


def test_the_layout_is_described_with_its_reasons() -> None:
    text = description(recommend(two_nodes(6.0)))
    assert "worker on NUMA node 1: 3 threads on cores 4-7, memory limit 34.0 GiB" in text
    assert "quota of CPU time grants 6: 6 threads" in text


def start(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "deploy.local", "--start", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def address_from(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("scheduler: "):
            return line.split()[1]
    raise AssertionError("the command ended without an address")


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_cluster_starts_as_described_and_ends_without_a_trace(number: signal.Signals, tmp_path: Path) -> None:
    process = start("--port", "0", "--dashboard-port", "0", "--local-directory", str(tmp_path))
    try:
        address = address_from(process)
        assert address.startswith("tcp://127.0.0.1:")
        planned = recommend(this_machine()).workers
        with Client(address, set_as_default=False) as client:
            facts = client.scheduler_info(n_workers=-1)["workers"].values()
            assert sorted(worker["nthreads"] for worker in facts) == sorted(worker.threads for worker in planned)
            assert all(worker["memory_limit"] in {plan.memory_limit for plan in planned} for worker in facts)
            assert client.dashboard_link.startswith("http://127.0.0.1:")
            pids = [*client.run(os.getpid).values(), client.run_on_scheduler(os.getpid)]
            masks = client.run(lambda: tuple(sorted(os.sched_getaffinity(0))))
            assert sorted(masks.values()) == sorted(worker.cores for worker in planned)
        process.send_signal(number)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()
    assert wait_for(lambda: not any(is_alive(pid) for pid in pids))


@pytest.mark.slow
def test_a_taken_port_is_an_error_and_leaves_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start("--port", str(taken.getsockname()[1]), "--dashboard-port", "0")
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert "scheduler: " not in output
