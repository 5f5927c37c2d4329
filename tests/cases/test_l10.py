"""L10: as many threads compute as the process has CPU time for: quotas of cgroups count, as they do in Dask."""

from __future__ import annotations

import builtins
import math
import os
from pathlib import Path
from typing import Any

import dask.system
import numpy as np
import pytest

from vmfa_dask import MixtureModel
from vmfa_dask.apply import inference
from vmfa_dask.runtime import threads
from vmfa_dask.runtime.quotas import quota_of_cores
from vmfa_dask.runtime.threads import available_cores

V1 = ("cpu,cpuacct", "cpuacct,cpu", "cpu")


def tree(root: Path, membership: str, files: dict[str, str]) -> str:
    """A fake root with the groups of a process."""
    for name, text in {"proc/self/cgroup": membership, **{f"sys/fs/cgroup/{n}": t for n, t in files.items()}}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def v1(folder: str, quota: int, period: int = 100_000) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": f"{period}\n"}


CASES: dict[str, tuple[str, dict[str, str], float | None]] = {
    "v2, half a core": ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),
    "v2, a group of its own": ("0::/job\n", {"job/cpu.max": "150000 100000\n"}, 1.5),
    "v2, the group around it limits": (
        "0::/slice/job\n",
        {"slice/job/cpu.max": "max 100000\n", "slice/cpu.max": "200000 100000\n"},
        2.0,
    ),
    "v2, the smaller of two": (
        "0::/a/b/c\n",
        {"a/cpu.max": "300000 100000\n", "a/b/cpu.max": "100000 100000\n", "a/b/c/cpu.max": "800000 100000\n"},
        1.0,
    ),
    "v2, no limit": ("0::/job\n", {"job/cpu.max": "max 100000\n"}, None),
    "v2, path of the host": ("0::/docker/abc\n", {"cpu.max": "250000 100000\n"}, 2.5),
    "v2, path above the mount": ("0::/../other\n", {"cpu.max": "250000 100000\n"}, 2.5),
    "v2, other period": ("0::/\n", {"cpu.max": "5000 20000\n"}, 0.25),
    "v2 beside v1": ("1:name=systemd:/\n0::/job\n", {"unified/job/cpu.max": "70000 100000\n"}, 0.7),
    **{f"v1, {name}": (f"4:{name}:/\n", v1(name, 50_000), 0.5) for name in V1},
    "v1, nested": ("4:cpu,cpuacct:/a/b\n", {**v1("cpu,cpuacct/a", 100_000), **v1("cpu,cpuacct/a/b", -1)}, 1.0),
    "v1, path of the host": ("4:cpu,cpuacct:/docker/abc\n", v1("cpu,cpuacct", 300_000), 3.0),
    "v1, no limit": ("4:cpu,cpuacct:/\n", v1("cpu,cpuacct", -1), None),
    "v1, cpuset is another controller": ("5:cpuset:/\n", v1("cpu,cpuacct", 100_000), None),
    "no groups": ("", {}, None),
    "damaged": ("0::/\n", {"cpu.max": "many\n"}, None),
    "damaged, empty": ("0::\nnonsense\n", {"cpu.max": ""}, None),
    "no period": ("0::/\n", {"cpu.max": "50000 0\n"}, None),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_quotas_are_read(tmp_path: Path, case: tuple[str, dict[str, str], float | None]) -> None:
    membership, files, expected = case
    assert quota_of_cores(tree(tmp_path, membership, files)) == expected


def test_where_there_is_nothing_to_read_nothing_limits(tmp_path: Path) -> None:
    assert quota_of_cores(str(tmp_path)) is None


@pytest.mark.parametrize(
    "name",
    ["v2, half a core", "v2, a group of its own", "v2, no limit", "v1, cpu,cpuacct", "v1, no limit", "no groups"],
)
def test_dask_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    membership, files, _ = CASES[name]
    root = tree(tmp_path, membership, files)
    monkeypatch.setattr(dask.system, "open", lambda path: builtins.open(f"{root}{path}"), raising=False)
    quota, period = dask.system._try_extract_cgroup_cpu_quota()
    cores = math.ceil(quota / period) if quota is not None and quota > 0 else None
    found = quota_of_cores(root)
    assert cores == (None if found is None else math.ceil(found))


def test_here_it_is_never_more_than_dask_would_use() -> None:
    assert 1 <= available_cores() <= dask.system.cpu_count()


@pytest.mark.parametrize(("quota", "expected"), [(None, 8), (0.5, 1), (1.0, 1), (1.5, 2), (7.2, 8), (64.0, 8)])
def test_cores_are_those_of_the_affinity_mask_within_the_quota(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(threads, "quota_of_cores", lambda: quota)
    assert available_cores() == expected


def test_a_model_computes_on_as_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    init = threads.Cores.__init__

    def watched(self: Any, n_threads: int) -> None:
        made.append(n_threads)
        init(self, n_threads)

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(threads, "quota_of_cores", lambda: 0.5)
    monkeypatch.setattr(threads.Cores, "__init__", watched)
    inference._shared_cores.cache_clear()  # an earlier test may have used one thread
    model = MixtureModel(np.ones(1), np.zeros((1, 3)), np.zeros((1, 0, 3)), np.ones((1, 3)))
    model.score(np.zeros((4, 3)))
    assert made
    assert set(made) == {1}
