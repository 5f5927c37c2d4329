"""``vmfa-dask score``, ``predict`` and ``sample``: what a fitted model is for. May import: command, apply, service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import numpy as np

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.command.clusters import Cluster
from vmfa_dask.command.options import EXISTING, NEW_PATH, command, option, scheduler_options, with_options
from vmfa_dask.service.endings import ending_by_signals

_ARRAY = option("--array", metavar="NAME", help="Array of DATA, if it is a group with several.")


def _rows_of_model(function: Callable[..., Any]) -> Callable[..., Any]:
    """Arguments and options of commands that give a result for each row."""
    for add in (with_options(scheduler_options()), _ARRAY, click.argument("data", type=EXISTING)):
        function = add(function)
    return click.argument("model", type=EXISTING)(function)


@command("score")
@_rows_of_model
@option("--output", type=NEW_PATH, metavar="STORE.zarr", help="Write the log-density of each row.")
def score(model: str, data: str, array: str | None, output: str | None, **cluster: Any) -> None:
    """Print the mean log-density that MODEL gives to the rows of DATA, in nats.

    The results of a call with --output continue after an interruption.
    """
    scores = _results(model, data, "score_samples", array, output, Cluster.taken_from(cluster))
    click.echo(f"{_mean(scores):.6f} nats per row, {scores.shape[0]:,} rows")
    if output is not None:
        click.echo(f"log-densities written to {output}")


@command("predict")
@_rows_of_model
@option("--output", type=NEW_PATH, metavar="STORE.zarr", required=True, help="Zarr array of the component numbers.")
def predict(model: str, data: str, array: str | None, output: str, **cluster: Any) -> None:
    """Write the most probable component of MODEL for each row of DATA.

    An interrupted call continues when it is repeated.
    """
    labels = _results(model, data, "predict", array, output, Cluster.taken_from(cluster))
    click.echo(f"components of {labels.shape[0]:,} rows written to {output}")


def _results(model: str, data: str, method: str, array: str | None, output: str | None, cluster: Cluster) -> Any:
    if cluster.scheduler is not None:
        from vmfa_dask.service.inference import infer

        if output is None:
            raise click.UsageError("--scheduler: expected --output, where its workers write the results")
        with cluster.client() as client:
            return infer(model, data, method, out=output, client=client, array=array)
    fitted = MixtureModel.load(model)
    keeping = "nothing was written" if output is None else "the same call continues from what is written"
    with ending_by_signals("the evaluation", f"({keeping})"):
        options = {} if output is None else {"out": output}
        return getattr(fitted, method)(data, array=array, **options)


def _mean(scores: Any) -> float:
    with np.errstate(over="ignore"):
        return float(np.mean(np.asarray(scores[...])))


@command("sample")
@click.argument("model", type=EXISTING)
@click.argument("n", type=click.IntRange(min=1))
@option("--output", type=NEW_PATH, metavar="STORE.zarr", required=True, help="The new Zarr array of rows.")
@option("--random-state", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed.")
def sample(model: str, n: int, output: str, random_state: int) -> None:
    """Draw N rows from MODEL into a Zarr array.

    The first rows of a larger sample are those of a smaller one.
    """
    fitted = MixtureModel.load(model)
    with _incomplete_named(output):
        rows, components = fitted.sample(n, random_state, out=output)
    used = len(np.unique(components))
    click.echo(f"{rows.shape[0]:,} rows of shape {rows.shape[1:]} from {used} components written to {output}")


@contextmanager
def _incomplete_named(output: str) -> Iterator[None]:
    with ending_by_signals("the sample", f"({output} is incomplete: remove it)"):
        yield
