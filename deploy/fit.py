"""Train on a cluster: ``python -m deploy.fit DATA --scheduler ADDRESS --components C --run FOLDER --output MODEL``.

For batch jobs and containers. The credentials of a ``tls://`` scheduler are taken from Dask's configuration
(``deploy/tls/environment.sh``), those of object stores from the environment.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from distributed import Client

from vmfa_dask import fit_distributed


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Raises
    ------
    OSError
        When no scheduler answers.
    ValueError
        As `fit_distributed`, before any work.
    """
    parser = parser_of("python -m deploy.fit")
    scheduler = parser.add_mutually_exclusive_group(required=True)
    scheduler.add_argument("--scheduler", help="address, such as tls://host:8786")
    scheduler.add_argument("--scheduler-file", help="file in which the scheduler has written its address")
    options = parser.parse_args(arguments)
    with Client(options.scheduler, scheduler_file=options.scheduler_file, set_as_default=False) as client:
        fit(client, options)


def parser_of(program: str) -> argparse.ArgumentParser:
    """A parser with the options of `fit`.

    Parameters
    ----------
    program : str
        Shown in its help.

    Returns
    -------
    argparse.ArgumentParser
    """
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("data", help="path or URL of a Zarr store; all workers open it")
    parser.add_argument("--components", type=int, required=True)
    parser.add_argument("--factors", type=int)
    parser.add_argument("--max-iter", type=int)
    parser.add_argument("--run", required=True, help="folder or URL that keeps the run; the same command resumes it")
    parser.add_argument("--scratch", help="folder for the exchange of parameters, fast and visible to all workers")
    parser.add_argument("--output", required=True, help="path or URL of the model; an older model there is replaced")
    parser.add_argument("--worker-timeout", default="10 minutes", help="how long to wait for a first worker")
    return parser


def fit(client: Client, options: argparse.Namespace) -> None:
    """Train as options say, print a line per pass, and save the model.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    options : argparse.Namespace
        Of a parser made by `parser_of`.
    """
    result = fit_distributed(
        options.data,
        client=client,
        n_components=options.components,
        n_factors=options.factors,
        max_iter=options.max_iter,
        run=options.run,
        scratch=options.scratch,
        worker_timeout=options.worker_timeout,
        progress=lambda record: print(record.line(), flush=True),
    )
    result.model.save(options.output, overwrite=True)
    print(result)
    print(f"model saved in {options.output}", flush=True)


if __name__ == "__main__":
    main()
