"""The batch script, with a stand-in for srun that starts its tasks on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.programs import ROOT
from tests.samples import draw, make_mixture
from vmfa_dask import MixtureModel, fit_local

SECONDS = 120.0
SRUN = """#!/bin/bash
# Starts the command once per task, as srun does, and passes the end on to them.
tasks=1
while [[ "$1" == --* ]]; do [[ "$1" != --ntasks=* ]] || tasks=${1#--ntasks=}; shift; done
echo "srun: $tasks tasks: $*"
trap 'kill $(jobs -p) 2>/dev/null' TERM
for _ in $(seq "$tasks"); do "$@" & done
wait
"""


@contextmanager
def job(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The script as Slurm starts it on one node, two tasks of one core each."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    python = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
    for name, text in {"srun": SRUN, "python": python, "hostname": "#!/bin/sh\necho localhost\n"}.items():
        (bin_folder / name).write_text(text)
        (bin_folder / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SLURM_JOB_ID": "7",
        "SLURM_SUBMIT_DIR": str(ROOT),
        "SLURM_NNODES": "1",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_MEM_PER_NODE": "4096",
        "VMFA_JOB_FOLDER": str(folder),
    }
    process = subprocess.Popen(
        ["bash", str(ROOT / "deploy" / "slurm" / "fit.sbatch"), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        try:
            process.communicate(timeout=SECONDS / 2)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def ends(group: int) -> bool:
    deadline = time.monotonic() + 10
    while is_alive(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "rows.zarr")
    zarr.create_array(path, data=draw(make_mixture(5, 8, 3), 4_000, dtype="float32"), chunks=(1_000, 8))
    return path


def options(store: str, folder: Path, iterations: int) -> list[str]:
    return [
        store,
        *f"--n-components 6 --n-factors 3 --max-iter {iterations}".split(),
        *("--run", str(folder / "run"), "--output", str(folder / "model.zarr")),
    ]


@pytest.mark.slow
def test_a_job_fits_over_tls_and_leaves_its_results_alone(store: str, tmp_path: Path) -> None:
    with job(tmp_path, *options(store, tmp_path, 2)) as process:
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, output
    assert "srun: 2 tasks: python -m dask worker --protocol tls --nworkers 1 --nthreads 1" in output
    assert "--memory-limit 1740MiB" in output
    assert "Start worker at:      tls://" in output
    assert "tcp://" not in output
    expected = fit_local(store, n_components=6, n_factors=3, max_iter=2).model
    np.testing.assert_array_equal(MixtureModel.load(str(tmp_path / "model.zarr")).means, expected.means)
    assert ends(process.pid)
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "rows.zarr", "run", "model.zarr"}


def test_a_job_without_arguments_says_how_to_use_it(tmp_path: Path) -> None:
    with job(tmp_path) as process:
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    assert output.startswith("usage: sbatch")


@pytest.mark.slow
def test_a_job_that_fails_says_so_and_ends_its_processes(tmp_path: Path) -> None:
    with job(tmp_path, *options(str(tmp_path / "nothing.zarr"), tmp_path, 2)) as process:
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 2, output  # that of the fit: a mistake in the call
    assert "nothing.zarr" in output
    assert ends(process.pid)
    assert not (tmp_path / "vmfa-job-7").exists()
