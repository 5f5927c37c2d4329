"""Whether a call resumes the run that a folder holds: its plan, its start and its settings.

May import: run, store.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import PAPER, Settings
from vmfa_dask.store.run_files import IDENTITY

# Settings that a call may change when it resumes a run.
EXTENSIBLE = ("tol", "max_iter")


def stored_plan(path: str, identity: dict[str, Any]) -> Plan:
    """The plan that a run was begun with.

    Parameters
    ----------
    path : str
        Folder or URL of the run, for messages.
    identity : dict
        Identity of the run as it was stored.

    Returns
    -------
    Plan
        For the rows and components of the run.

    Raises
    ------
    ValueError
        When no such plan is stored.
    """
    try:
        plan = Plan.from_dict(identity["plan"])
    except ValueError as error:
        raise ValueError(f"{path}/{IDENTITY}: damaged: {error}; restore the file from a copy") from error
    sizes = {
        "n_rows": (plan.n_rows, identity.get("data", {}).get("n_rows")),
        "n_components": (plan.component_blocks[-1][1], identity.get("settings", {}).get("n_components")),
    }
    for name, (cut, stated) in sizes.items():
        if cut != stated:
            raise ValueError(
                f"{path}/{IDENTITY}: damaged: its plan cuts {cut}, and {name} is {stated!r}; "
                "restore the file from a copy"
            )
    return plan


def same_plan(path: str, stored: Plan, made: Plan, n_groups: int | None) -> Plan:
    """The plan with which a run is resumed: the stored one, whatever plan this version would make.

    Parameters
    ----------
    path : str
        Folder or URL of the run, for messages.
    stored, made : Plan
        The run's, and that of this call.
    n_groups : int or None
        As the call has given it.

    Returns
    -------
    Plan
        The stored one.

    Raises
    ------
    ValueError
        When the call asks for another number of groups.
    """
    if n_groups is not None and stored.n_rows == made.n_rows and len(stored.groups) != len(made.groups):
        raise ValueError(
            f"{path} holds another run: it has {len(stored.groups)} groups, this call asks for {len(made.groups)} "
            f"(n_groups={n_groups}); leave n_groups out to go on with it"
        )
    return stored


def check_same_start(path: str, stored: str | None, given: str | None) -> None:
    """Refuse another start than that of the run.

    Parameters
    ----------
    path : str
        Folder or URL of the run, for messages.
    stored, given : str or None
        Digests of the run's start, and of that of this call; None for seeds.

    Raises
    ------
    ValueError
        When they differ.
    """
    if stored != given:
        begun = "from seeds" if stored is None else "with a start" if given is None else "with another start"
        asked = ", this call has none" if given is None else ""
        raise ValueError(
            f"{path} holds another run: it was begun {begun}{asked}; pass the same start again, or use another folder"
        )


def settings_of_run(settings: Settings, stored: dict[str, Any]) -> dict[str, Any]:
    """The settings by which a run is recognised.

    Parameters
    ----------
    settings : Settings
        Of this call.
    stored : dict
        Settings with which the run was begun; empty where nothing is stored.

    Returns
    -------
    dict
        Settings by name, without those that a call may change. Settings that did not exist when the run was begun
        count only when they differ from the defaults of that time.
    """
    defaults = {**{field.name: field.default for field in fields(settings)}, **PAPER}  # those of version 0.1.0
    return {
        name: value
        for name, value in asdict(settings).items()
        if name not in EXTENSIBLE and (not stored or name in stored or value != defaults[name])
    }
