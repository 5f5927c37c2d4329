"""Whether a call goes on with the run that a folder holds: its plan, its start and its settings.

May import: em, store.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import PAPER, Settings
from vmfa_dask.store.run_files import IDENTITY

# Settings that a call may change when it goes on with a run.
_EXTENSIBLE = ("tol", "max_iter")


def stored_plan(path: str, known: dict[str, Any]) -> Plan:
    """The plan that a run was begun with.

    Raises
    ------
    ValueError
        When it is none, or not one for the rows and components of the run.
    """
    try:
        plan = Plan.from_dict(known["plan"])
    except ValueError as error:
        raise ValueError(f"{path}/{IDENTITY}: damaged: {error}; restore the file from a copy") from error
    sizes = {
        "n_rows": (plan.n_rows, known.get("data", {}).get("n_rows")),
        "n_components": (plan.component_blocks[-1][1], known.get("settings", {}).get("n_components")),
    }
    for name, (cut, stated) in sizes.items():
        if cut != stated:
            raise ValueError(
                f"{path}/{IDENTITY}: damaged: its plan cuts {cut}, and {name} is {stated!r}; "
                "restore the file from a copy"
            )
    return plan


def same_plan(path: str, stored: Plan, made: Plan, n_groups: int | None) -> Plan:
    """The stored plan, unless the caller asks for other groups."""
    if n_groups is not None and stored.n_rows == made.n_rows and len(stored.groups) != len(made.groups):
        raise ValueError(
            f"{path} holds another run: it has {len(stored.groups)} groups, this call asks for {len(made.groups)} "
            f"(n_groups={n_groups}); leave n_groups out to go on with it"
        )
    return stored


def check_same_start(path: str, there: str | None, here: str | None) -> None:
    """Refuse another start than that of the run."""
    if there != here:
        begun = "from seeds" if there is None else "with a start" if here is None else "with another start"
        asked = ", this call has none" if here is None else ""
        raise ValueError(
            f"{path} holds another run: it was begun {begun}{asked}; pass the same start again, or use another folder"
        )


def settings_of_run(settings: Settings, known: dict[str, Any]) -> dict[str, Any]:
    """The settings that make a run the same run; those that came after it was begun count when they were chosen."""
    defaults = {**{field.name: field.default for field in fields(settings)}, **PAPER}  # those of version 0.1.0
    return {
        name: value
        for name, value in asdict(settings).items()
        if name not in _EXTENSIBLE and (not known or name in known or value != defaults[name])
    }
