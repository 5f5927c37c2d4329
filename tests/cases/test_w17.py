"""W17: the logging of an application is its own: no handler and no level changes, and each message comes once."""

from __future__ import annotations

import inspect
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.clusters import local_cluster
from tests.programs import run_python
from tests.samples import draw, make_mixture
from vmfa_dask import fit_distributed


def describe_logging() -> dict[str, list[Any]]:
    """Every logger of this process: level, handlers, filters, and whether it speaks and passes messages on."""
    loggers: dict[str, Any] = {"root": logging.getLogger(), **logging.getLogger().manager.loggerDict}
    return {
        name: [
            logger.level,
            [f"{handler!r} {id(handler)}" for handler in logger.handlers],
            [repr(each) for each in logger.filters],
            logger.propagate,
            logger.disabled,
        ]
        for name, logger in loggers.items()
        if isinstance(logger, logging.Logger)
    }


DESCRIBE = "from __future__ import annotations\nimport logging\n" + inspect.getsource(describe_logging)

# A service that logs everything through one handler, on its standard output, before it knows of the package.
SERVICE = f"""
{DESCRIBE}
import json, logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="%(name)s|%(message)s")
logging.captureWarnings(True)
import dask.config, distributed, numba, numpy as np, zarr
logging.getLogger("distributed.worker").setLevel(logging.ERROR)
logging.getLogger("numba").setLevel(logging.WARNING)

if __name__ == "__main__":
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, memory_limit="2 GiB", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        before, lengths = describe_logging(), []
        from vmfa_dask import fit_distributed
        rows = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
        for _ in range(2):
            fit = fit_distributed(rows, client=client, n_components=4, n_factors=3, max_iter=3)
            lengths.append(len(fit.history))
        after = describe_logging()
    with open(sys.argv[1], "w") as file:
        json.dump([before, after, lengths], file)
"""


def describe_workers(client: Client) -> dict[str, dict[str, list[Any]]]:
    """The loggers of each worker; described by text, as importing this module there would import the package."""
    source = DESCRIBE

    def describe() -> Any:
        names: dict[str, Any] = {}
        exec(source, names)
        return names["describe_logging"]()

    return client.run(describe)


def assert_unchanged(before: dict[str, list[Any]], after: dict[str, list[Any]]) -> None:
    assert {name: after[name] for name in before} == before
    for name in set(after) - set(before):  # loggers that were asked for the first time
        level, handlers, *rest = after[name]
        if not name.startswith("vmfa_dask"):  # libraries that were loaded meanwhile bring handlers that do nothing
            handlers = [handler for handler in handlers if not handler.startswith("<NullHandler")]
        assert [level, handlers, *rest] == [logging.NOTSET, [], [], True, False], name


@pytest.mark.slow
def test_a_service_that_logs_everything(tmp_path: Path) -> None:
    done = run_python("-c", SERVICE, str(tmp_path / "found.json"))
    before, after, lengths = json.loads((tmp_path / "found.json").read_text())
    assert not any(name.startswith("vmfa_dask.") for name in before)
    assert_unchanged(before, after)
    ours = [line for line in done.stdout.splitlines() if line.startswith("vmfa_dask")]
    passes = [line for line in ours if " joints/row" in line]
    assert len(passes) == sum(lengths)
    assert len(set(ours)) > len(set(passes)) > 0
    assert sum("projected peak memory" in line for line in ours) == 2
    assert done.stderr == ""  # nothing went past the service's handler


@pytest.mark.slow
def test_workers_keep_their_logging() -> None:
    rows = draw(make_mixture(4, 8, 3), 300, dtype="float32")
    with (
        local_cluster(1) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.run(lambda: [__import__(name) for name in ("numba", "zarr")] and None)
        (before,) = describe_workers(client).values()
        fit_distributed(rows, client=client, n_components=4, n_factors=3, max_iter=2, n_groups=4)
        (after,) = describe_workers(client).values()
    assert not any(name.startswith("vmfa_dask.") for name in before)
    assert any(name.startswith("vmfa_dask.") for name in after)
    assert_unchanged(before, after)


def test_what_workers_find_is_a_warning_of_the_caller(processes: Client) -> None:
    # Four distinct rows for six components: the chains of the seeding notice it, on a worker.
    rows = np.repeat(np.eye(4, 8, dtype=np.float32), 50, axis=0)
    with pytest.warns(UserWarning, match="only 4 of n_components=6 seeds are distinct rows") as found:
        fit_distributed(rows, client=processes, n_components=6, n_factors=3, max_iter=2, n_groups=4)
    assert len(found) == 1
    assert found[0].filename == __file__
