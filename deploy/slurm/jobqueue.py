"""A fit whose workers are Slurm jobs, by dask-jobqueue: scheduler and driver run where this is started.

    python deploy/slurm/jobqueue.py DATA --components 800 --run RUN --output MODEL --jobs 4 --cores 32 --memory 64GiB

Jobs may start at different times and come back after a failure: the fit begins with the first worker. Needs the package
dask-jobqueue, and a node from which batch jobs can be submitted and that they can reach.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import dask
from dask.utils import format_bytes, parse_bytes
from dask_jobqueue import SLURMCluster
from distributed import Client
from distributed.security import Security

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from deploy.fit import fit, parser_of  # noqa: E402

# Workers get this share of the memory of their job; the rest is for the nanny and the page cache.
_SHARE_OF_MEMORY = 0.85


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.
    """
    parser = parser_of("python deploy/slurm/jobqueue.py")
    parser.add_argument("--jobs", type=int, default=1, help="jobs, with one worker each")
    parser.add_argument("--cores", type=int, required=True, help="of a job")
    parser.add_argument("--memory", required=True, help="of a job, such as 64GiB")
    parser.add_argument("--walltime", default="04:00:00")
    parser.add_argument("--queue", help="partition")
    parser.add_argument("--account")
    parser.add_argument("--interface", help="network between nodes, such as ib0")
    parser.add_argument("--shared", default=".", help="folder that all nodes see, for certificates (default: here)")
    options = parser.parse_args(arguments)
    settings = str(ROOT / "deploy" / "dask.yaml")
    dask.config.refresh(paths=[*dask.config.paths, settings])
    limit = int(parse_bytes(options.memory) * _SHARE_OF_MEMORY)
    with (
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
            security=Security.temporary(),
            shared_temp_directory=options.shared,
            scheduler_options={"dashboard_address": "127.0.0.1:0"},
            worker_extra_args=["--no-dashboard", "--dashboard-address", "127.0.0.1:0"],
            job_script_prologue=[f"export DASK_CONFIG={settings}"],
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        fit(client, options)


if __name__ == "__main__":
    main()
