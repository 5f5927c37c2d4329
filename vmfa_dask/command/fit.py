"""``vmfa-dask fit``. May import: command, run, apply, store, service, click."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from vmfa_dask import __version__
from vmfa_dask.command.clusters import Cluster
from vmfa_dask.command.configuration import as_toml, config_option, names_in_files
from vmfa_dask.command.fit_options import checked, fit_options, given
from vmfa_dask.command.options import EXISTING, NEW_PATH, command, option, with_options
from vmfa_dask.command.projection import projection_lines
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.settings import Settings
from vmfa_dask.service.fit import fit_distributed
from vmfa_dask.service.inputs import settings_of_fit
from vmfa_dask.service.keywords import DEFAULTS
from vmfa_dask.service.sources import opened_rows
from vmfa_dask.service.training import Fit
from vmfa_dask.store.places import locate
from vmfa_dask.store.run_inspection import note_call, read_call, read_state

_PATHS = ("data", "output", "run", "scratch", "start", "validation", "tls_ca", "tls_cert", "tls_key")


@command("fit")
@click.argument("data", type=EXISTING)
@option(
    "--output", type=NEW_PATH, metavar="MODEL.zarr", section="Result", help="Where the model is saved; path or URL."
)
@option("--overwrite", is_flag=True, section="Result", help="Replace a model that is at --output.")
@option("--dry-run", is_flag=True, section="Result", help="Print all options as TOML and the memory; train nothing.")
@with_options([config_option(), *fit_options()])
@click.pass_context
def fit(ctx: click.Context, /, **values: Any) -> None:
    """Train a mixture of factor analyzers on the rows of DATA.

    DATA is the path or URL of a Zarr store, or the path of a .npy file; 'vmfa-dask prepare' makes stores of other
    files. Progress goes to the error stream, the result to the output.
    """
    if values.pop("dry_run"):
        names = names_in_files(ctx.command.get_params(ctx))
        click.echo(_dry_run({name: values[name] for name in names}), nl=False)
        return
    run_fit(values)


def run_fit(values: Mapping[str, Any]) -> None:
    """Make the fit that options ask for, save the model and print the result.

    Parameters
    ----------
    values : mapping of str to object
        Options of the command by name; None where they are not given.

    Raises
    ------
    click.UsageError
        When options contradict one another, before any work.
    """
    values = _located(values)
    keywords = dict(values)
    cluster = Cluster.taken_from(keywords)
    data, output, overwrite = keywords.pop("data"), keywords.pop("output", None), keywords.pop("overwrite", False)
    detach, start = keywords.pop("detach", None) or False, keywords.pop("start", None)
    keywords = given(keywords)
    if cluster.scheduler is not None and cluster.threads is not None:
        keywords["threads"] = cluster.threads
    _check_result(keywords.get("run"), output, overwrite, detach, cluster)
    checked(keywords, detach)
    if start is not None:
        from vmfa_dask.apply.model import MixtureModel

        keywords["start"] = MixtureModel.load(start)
    note = _CallNote(keywords.get("run"), as_toml({name: value for name, value in values.items() if value is not None}))
    with cluster.client() as client:
        try:
            if detach:
                from vmfa_dask.cluster.drivers import results_in_folders_alone

                with results_in_folders_alone():  # 'resume' gets the model from there
                    fit_distributed(data, detach=True, client=client, **keywords)
                note.write(begun=True)
                click.echo(f"the run is on the cluster; 'vmfa-dask status {keywords['run']} --follow' shows its passes")
                return
            result = fit_distributed(data, client=client, progress=note, **keywords)
        finally:
            note.write()
    _show_result(result, output, overwrite, data)


def _located(values: Mapping[str, Any]) -> dict[str, Any]:
    """Options with absolute paths; a share for validation is no path."""
    paths = {name: values[name] for name in _PATHS if isinstance(values.get(name), str)}
    return {**values, **{name: locate(path) for name, path in paths.items()}}


def _check_result(run: str | None, output: str | None, overwrite: bool, detach: bool, cluster: Cluster) -> None:
    """Refuse calls whose result would be lost, before any work."""
    if run is None and output is None:
        raise click.UsageError("the model would be lost; expected --output MODEL.zarr, --run FOLDER, or both")
    if detach and (cluster.scheduler is None or run is None or output is not None):
        raise click.UsageError("--detach: expected --scheduler and --run, and no --output, which 'resume' writes later")
    if output is None or "://" in output:
        return
    if os.path.lexists(output) and not overwrite:
        raise click.UsageError(f"--output {output} exists; choose another path, or pass --overwrite")
    if not os.path.isdir(os.path.dirname(output)):
        raise click.UsageError(f"--output {output}: its folder does not exist")


class _CallNote:
    """Keeps the options in the run's folder, once there is a run: with them, 'resume' needs the folder alone."""

    def __init__(self, run: str | None, text: str) -> None:
        self._run, self._text = run, text

    def __call__(self, record: IterationRecord) -> None:
        self.write(begun=True)

    def write(self, begun: bool = False) -> None:
        if self._run is None:
            return
        run = self._run
        if begun or (read_state(run) is not None and read_call(run) is None):
            note_call(run, self._text)
        self._run = None  # last: an interrupt may come while the file is written


def _show_result(result: Fit, output: str | None, overwrite: bool, data: str) -> None:
    if output is not None:
        provenance = {
            "vmfa_dask": __version__,
            "data": data,
            "settings": dict(vars(result.settings)),
        }
        result.model.save(output, overwrite=overwrite, provenance=provenance)
    click.echo(repr(result))
    if output is not None:
        click.echo(f"model saved in {output}")


def _dry_run(values: Mapping[str, Any]) -> str:
    """All options as TOML, with the defaults that suit the data, and the memory as comments."""
    values = _located(values)
    keywords = dict(values)
    cluster = Cluster.taken_from(keywords)
    call = checked(given(keywords))
    with opened_rows(values["data"], **call.selection) as rows:
        settings = settings_of_fit(call.asked, call.options.run, rows)
        limit = cluster.worker_memory() if cluster.scheduler is None else None
        lines = projection_lines(rows, settings, call.options.n_groups, limit)
    return as_toml(_with_defaults(values, settings)) + "".join(f"# {line}\n" for line in lines)


def _with_defaults(values: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    chosen = {**DEFAULTS, **vars(settings)}
    return {name: chosen.get(name) if value is None else value for name, value in values.items()}
