"""``vmfa-dask resume`` and ``vmfa-dask status``: runs that are kept. May import: command, store, service."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Sequence
from typing import Any

import click

from vmfa_dask.cluster.quantities import seconds_as_text
from vmfa_dask.command.options import EXISTING, NEW_PATH, cluster_options, command, option, with_options
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.state import DONE, RunState
from vmfa_dask.service.checkpoints import settings_from, state_from
from vmfa_dask.service.progress_texts import RECENT, most_seconds_left, position, rounded
from vmfa_dask.store.places import locate
from vmfa_dask.store.run_inspection import (
    driver_holds,
    read_call,
    read_limits,
    read_sections,
    read_settings,
    read_state,
    seconds_since_kept,
)
from vmfa_dask.store.run_layout import CALL

_SECONDS = 1.0  # between two looks at a run that is followed
_MOST_IDLE = 5  # looks that find no driver: one that was just sent to a cluster needs a moment
# Of an earlier call, about its cluster: a call that names one of them chooses its own.
_OF_CLUSTERS = ("scheduler", "tls_ca", "tls_cert", "tls_key", "workers", "threads", "memory_limit")


@command("resume")
@click.argument("run", type=EXISTING)
@option("--data", type=EXISTING, metavar="PATH", help="The rows, if they have moved, or Python began the run.")
@option("--start", type=EXISTING, metavar="MODEL", help="The model that the run began with, if Python began it.")
@option("--tol", type=click.FLOAT, metavar="X", help="Train further, up to a smaller gain per pass.")
@option("--max-iter", type=click.INT, metavar="N", help="Train further, for more passes.")
@option("--output", type=NEW_PATH, metavar="MODEL.zarr", help="Where the model is saved.")
@option("--overwrite", is_flag=True, help="Replace a model that is at --output.")
@with_options(cluster_options())
def resume(run: str, **changes: Any) -> None:
    """Continue the run in the folder or URL RUN with the options that it was begun with.

    A finished run is trained further with a smaller --tol or a larger --max-iter.
    """
    from vmfa_dask.command.fit import run_fit

    path = locate(run)
    changes = {name: value for name, value in changes.items() if value is not None and value is not False}
    values = _begun_with(path)
    values.pop("detach", None)  # this command waits for the model
    if set(changes) & set(_OF_CLUSTERS):
        values = {name: value for name, value in values.items() if name not in _OF_CLUSTERS}
    if "output" not in changes:  # the model of a finished run is there already, and it is this command's to replace
        changes["overwrite"] = changes.get("overwrite", False) or "output" in values
    values = {**values, **changes, "run": path, "resume": "require"}
    if "data" not in values:
        raise click.UsageError(f"{run}: this run was begun in Python and does not name its rows; expected --data PATH")
    run_fit(values)


def _begun_with(path: str) -> dict[str, Any]:
    """Options of the call that began a run; its settings if no command did."""
    sections = read_sections(path)
    if sections is None:
        raise click.UsageError(f"{path} holds no run; 'vmfa-dask inspect' says what it holds")
    text = read_call(path)
    if text is None:
        settings = sections["settings"]
        return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}/{CALL}: damaged: {error}; remove it, and pass --data") from error
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


@command("status")
@click.argument("run", type=EXISTING)
@option("--follow", is_flag=True, help="Print each pass that is kept, until the run is done or has no driver.")
def status(run: str, follow: bool) -> None:
    """Say how far the run in the folder or URL RUN has come, and whether a driver works on it."""
    path = locate(run)
    if read_sections(path) is None:
        raise click.UsageError(f"{run} holds no run; 'vmfa-dask inspect' says what it holds")
    if follow:
        _follow(path)
    click.echo("\n".join(_status_lines(path)))


def _state(path: str) -> RunState | None:
    values = read_state(path)
    return None if values is None else state_from(path, values)


def _status_lines(path: str) -> list[str]:
    state, age, held = _state(path), seconds_since_kept(path), driver_holds(path)
    records: Sequence[IterationRecord] = state.records if state is not None else ()
    phase = "not begun" if state is None else state.phase
    facts = {"phase": phase, "passes": str(len(records))}
    if state is not None and state.phase != DONE:
        limits = read_limits(path)
        settings = settings_from({**read_settings(path), **limits}) if limits else None
        facts["next pass"] = position(state, settings)
        if records and settings is not None and held is not False:
            facts["time left"] = _time_left(state, settings, age)
    if records:
        facts["last pass"] = f"{records[-1].iteration} ({records[-1].phase})"
        facts["free energy"] = f"{records[-1].free_energy:.6g} nats per row"
        held_out = [record.validation for record in records if record.validation is not None]
        if held_out:
            facts["held-out"] = f"{held_out[-1]:.6g} nats per row"
        facts["components"] = str(records[-1].n_alive)
    if age is not None:
        facts["last kept"] = f"{seconds_as_text(age)} ago"
    drivers = {True: "at work", False: "none", None: "unknown: there are no locks in this place"}
    facts["driver"] = drivers[held]
    return [path, *(f"  {name + ':':13s}{fact}" for name, fact in facts.items())]


def _time_left(state: RunState, settings: Settings, age: float | None) -> str:
    """Time until the end, if all passes are made; the run has gone on since it was kept."""
    seconds = most_seconds_left(state, settings, [record.seconds for record in state.records[-RECENT:]])
    return f"at most {rounded(max(0.0, seconds - (age or 0.0)))}, unless it converges earlier"


def _follow(path: str) -> None:
    shown = idle = 0
    while True:
        held, state = driver_holds(path), _state(path)  # in this order: what a driver kept last is seen
        records = state.records if state is not None else ()
        for record in records[shown:]:
            click.echo(record.line())
        shown = len(records)
        idle = 0 if held is not False else idle + 1
        if idle > _MOST_IDLE or (not held and state is not None and state.phase == DONE):
            return
        time.sleep(_SECONDS)
