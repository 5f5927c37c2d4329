"""``vmfa-dask plan`` and ``vmfa-dask warm-up``: before a fit. May import: command, cluster, run, service, numpy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import click
import numpy as np

from vmfa_dask.cluster.compilation import compile_ahead
from vmfa_dask.command.clusters import Cluster
from vmfa_dask.command.configuration import config_option
from vmfa_dask.command.fit_options import DOCS, checked, given, rows_of_size, settings_options
from vmfa_dask.command.keywords import keyword_options
from vmfa_dask.command.options import EXISTING, QUANTITY, command, option, with_options
from vmfa_dask.command.projection import duration_lines, projection_lines
from vmfa_dask.run.settings import Settings
from vmfa_dask.service.inputs import settings_of_fit
from vmfa_dask.service.keywords import DEFAULTS, SettingsKeywords
from vmfa_dask.service.planned_rows import sample_of
from vmfa_dask.service.rates import measure_rates
from vmfa_dask.service.run_plan import PASSES, layout_of, planned
from vmfa_dask.service.sources import opened_rows
from vmfa_dask.tables import row_dtype

# Settings that are compiled into kernels.
_COMPILED = ("n_factors", "covariance_type", "noise", "search", "search_every", "screening", "init_params", "precision")


@command("plan")
@click.argument("data", type=EXISTING, required=False)
@option("--rows", type=click.IntRange(min=1), metavar="N", help="Number of rows, in place of DATA.")
@option("--features", type=click.IntRange(min=1), metavar="D", help="Features of a row, in place of DATA.")
@option("--dtype", default="float32", show_default=True, metavar="DTYPE", help="Dtype of the store, with --rows.")
@option("--chunk-rows", type=click.IntRange(min=1), metavar="N", help="Rows of a chunk, with --rows [default: 2 MiB].")
@option("--array", metavar="NAME", help=DOCS["array"])
@option("--n-groups", type=click.IntRange(min=1), metavar="N", help=DOCS["n_groups"])
@option("--memory-limit", type=QUANTITY, metavar="SIZE", help="Memory of a worker [default: that of this machine].")
@option("--time", is_flag=True, help="Estimate the seconds of a pass too, from short fits on this machine.")
@option("--machines", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Equal ones.")
@option("--processes", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="On each machine.")
@option("--threads", type=click.IntRange(min=1), metavar="N", help="With --time: threads of a process.")
@with_options([config_option(), *settings_options()])
def plan(
    data: str | None,
    rows: int | None,
    features: int | None,
    dtype: str,
    chunk_rows: int | None,
    memory_limit: int | str | None,
    time: bool,
    machines: int,
    processes: int,
    threads: int | None,
    **keywords: Any,
) -> None:
    """Project the memory that a fit takes in each worker, for the rows of DATA or for --rows and --features.

    With --time also the seconds of a pass, on such machines as this one.
    """
    if (data is None) != (rows is not None and features is not None) or (data is not None and (rows or features)):
        raise click.UsageError("expected either DATA, or --rows and --features")
    limit = Cluster(memory_limit=memory_limit).worker_memory()
    call = checked(given(keywords))
    with ExitStack() as stack:
        if data is not None:
            source: Any = stack.enter_context(opened_rows(data, **call.selection))
        else:
            assert rows is not None
            assert features is not None
            source = rows_of_size(rows, features, dtype, chunk_rows)
        settings = settings_of_fit(call.asked, None, source)
        click.echo("\n".join(projection_lines(source, settings, call.options.n_groups, limit)))
        if time:
            layout = layout_of(machines, processes, threads)
            rates = measure_rates(source, settings, sample_of(source) if data is not None else None)
            estimate = planned(source, settings, layout, rates, PASSES, call.options.n_groups)
            click.echo("\n".join(duration_lines(estimate)))


@command("warm-up")
@option("--dtype", multiple=True, default=("float32",), show_default=True, metavar="DTYPE", help="Of rows; repeatable.")
@with_options(
    keyword_options(
        SettingsKeywords, DOCS, DEFAULTS, left_out=[n for n in SettingsKeywords.__annotations__ if n not in _COMPILED]
    )
)
def warm_up(dtype: Sequence[str], **keywords: Any) -> None:
    """Compile the kernels of fits of these types, and keep them on disk, so that the first fit begins at once.

    Without --init-params, kernels for both defaults, "pilot" and "afkmc2", are compiled.
    """
    chosen = given(keywords)
    starts = [chosen.pop("init_params")] if "init_params" in chosen else ["pilot", "afkmc2"]
    for name in dtype:
        try:
            kind = row_dtype(np.dtype(name))
        except TypeError as error:
            raise click.UsageError(f"--dtype {name}: expected an integer or float dtype such as uint8") from error
        for start in starts:
            try:
                settings = Settings(n_components=8, init_params=start, **chosen)
            except ValueError as error:
                raise click.UsageError(str(error)) from error
            seconds = compile_ahead(settings, kind)
            click.echo(f"{kind.name} rows, {settings.n_factors} factors, {start}: ready after {seconds:.1f} s")
