"""Workers as jobs of a batch system, with stand-ins for Slurm's commands that start jobs on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.programs import ROOT
from tests.samples import draw, make_mixture
from vmfa_dask import MixtureModel, fit_local

pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed; the extra `test` has it")

SBATCH = """#!/bin/bash
cp "$1" "$JOBS/script-$$"
setsid bash "$JOBS/script-$$" > "$JOBS/output-$$" 2>&1 < /dev/null &
echo $! > "$JOBS/pid-$$"
echo "Submitted batch job $$"
"""
SCANCEL = """#!/bin/bash
echo "$1" >> "$JOBS/cancelled"
kill -TERM -- -"$(cat "$JOBS/pid-$1")"
"""


@pytest.mark.slow
def test_a_fit_on_two_jobs_has_the_bytes_of_a_local_one(tmp_path: Path) -> None:
    store = str(tmp_path / "rows.zarr")
    zarr.create_array(store, data=draw(make_mixture(5, 8, 3), 4_000, dtype="float32"), chunks=(1_000, 8))
    for folder in ("bin", "jobs", "shared"):
        (tmp_path / folder).mkdir()
    for name, text in {"sbatch": SBATCH, "scancel": SCANCEL}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    command = [sys.executable, str(ROOT / "deploy" / "slurm" / "jobqueue.py")]
    command += [*"--jobs 2 --cores 1 --memory 2GiB --interface lo --shared".split(), str(tmp_path / "shared")]
    command += [store, *"--n-components 6 --n-factors 3 --max-iter 2 --output".split(), str(tmp_path / "model.zarr")]
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "JOBS": str(tmp_path / "jobs")}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    expected = fit_local(store, n_components=6, n_factors=3, max_iter=2).model
    np.testing.assert_array_equal(MixtureModel.load(str(tmp_path / "model.zarr")).means, expected.means)
    scripts = [path.read_text() for path in (tmp_path / "jobs").glob("script-*")]
    assert len(scripts) == 2
    for script in scripts:
        assert {"#SBATCH --cpus-per-task=1", "#SBATCH --mem=2048M"} <= set(script.splitlines())
        assert "tls://127.0.0.1:" in script
        assert "--memory-limit 1.70GiB" in script
    assert len((tmp_path / "jobs" / "cancelled").read_text().split()) == 2
    assert list((tmp_path / "shared").iterdir()) == []  # the key of the cluster is gone
