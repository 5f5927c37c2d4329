"""A fit whose workers are Slurm jobs, by dask-jobqueue: scheduler and driver run where this is started.

    python deploy/slurm/jobqueue.py --jobs 4 --cores 32 --memory 64GiB DATA --n-components 800 --run RUN --output MODEL

What is not an option of this script is one of ``vmfa-dask fit``. Jobs may start at different times and come back after
a failure: the fit begins with the first worker. Needs the packages dask-jobqueue and cryptography, on a node from which
jobs can be submitted and which they can reach.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import dask
from dask.utils import format_bytes, parse_bytes
from dask_jobqueue import SLURMCluster
from distributed.security import Security

from vmfa_dask.command import main as vmfa_dask

_SETTINGS = Path(__file__).parents[1] / "dask.yaml"
# Workers get this share of the memory of their job; the rest is for the nanny and the page cache.
_SHARE_OF_MEMORY = 0.85


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        That of ``vmfa-dask fit``.
    """
    parser = argparse.ArgumentParser(prog="python deploy/slurm/jobqueue.py", allow_abbrev=False)
    parser.add_argument("--jobs", type=int, default=1, help="jobs, with one worker each")
    parser.add_argument("--cores", type=int, required=True, help="of a job")
    parser.add_argument("--memory", required=True, help="of a job, such as 64GiB")
    parser.add_argument("--walltime", default="04:00:00")
    parser.add_argument("--queue", help="partition")
    parser.add_argument("--account")
    parser.add_argument("--interface", help="network between nodes, such as ib0")
    parser.add_argument("--shared", default=".", help="folder that all nodes see, for certificates (default: here)")
    options, of_the_fit = parser.parse_known_args(arguments)
    dask.config.refresh(paths=[*dask.config.paths, str(_SETTINGS)])
    limit = int(parse_bytes(options.memory) * _SHARE_OF_MEMORY)
    security = Security.temporary()
    credentials = {
        "distributed.comm.tls.ca-file": security.tls_ca_file,
        "distributed.comm.tls.client.cert": security.tls_client_cert,
        "distributed.comm.tls.client.key": security.tls_client_key,
    }
    with (
        dask.config.set(credentials),
        SLURMCluster(
            n_workers=options.jobs,
            processes=1,
            cores=options.cores,
            job_cpu=options.cores,
            memory=format_bytes(limit).replace(" ", ""),
            job_mem=f"{parse_bytes(options.memory) // 2**20}M",
            walltime=options.walltime,
            queue=options.queue,
            account=options.account,
            interface=options.interface,
            protocol="tls://",
            security=security,
            shared_temp_directory=options.shared,
            scheduler_options={"dashboard_address": "127.0.0.1:0"},
            worker_extra_args=["--no-dashboard", "--dashboard-address", "127.0.0.1:0"],
            job_script_prologue=[f"export DASK_CONFIG={_SETTINGS}"],
        ) as cluster,
    ):
        wait = ["--worker-timeout", "1 day"]  # in the queue
        return vmfa_dask(["fit", *wait, "--scheduler", cluster.scheduler_address, *of_the_fit])


if __name__ == "__main__":
    sys.exit(main())
