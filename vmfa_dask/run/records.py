"""What a run tells about itself: one record per pass over the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

from vmfa_dask.sizes import Sized

# Phases of a run, in their order.
PHASES = ("warm-up", "training", "final", "done")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


# What JSON holds of a field, by its annotation.
_FITS: Mapping[str, Callable[[Any], bool]] = {
    "int": _is_count,
    "int | None": lambda value: value is None or _is_count(value),
    "float": _is_number,
    "float | None": lambda value: value is None or _is_number(value),
    "bool": lambda value: type(value) is bool,
    "str": lambda value: value in PHASES,
    "dict[str, float]": lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
    "tuple[int, ...]": lambda value: isinstance(value, list | tuple) and all(map(_is_count, value)),
    "tuple[IterationRecord, ...]": lambda value: isinstance(value, list | tuple),
}


def check_fields(kind: type[Any], values: Any, what: str) -> dict[str, Any]:
    """Check that values read from JSON have the types of the fields of a dataclass.

    Parameters
    ----------
    kind : type
        The dataclass.
    values : object
        What the JSON holds.
    what : str
        What it is called in messages.

    Returns
    -------
    dict of str to object
        The values.

    Raises
    ------
    ValueError
        Naming the field, what was found and what is expected.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{what} is {values!r:.60}, expected an object")
    known = {f.name: f for f in fields(kind)}
    missing = [f.name for f in known.values() if f.default is MISSING and f.default_factory is MISSING]
    for name in [name for name in missing if name not in values] + [name for name in values if name not in known]:
        raise ValueError(f"{what}: the field {name!r:.60} is {'unknown' if name in values else 'missing'}")
    for name, value in values.items():
        if not _FITS[str(known[name].type)](value):
            raise ValueError(f"{what}: {name} is {value!r:.60}, expected {known[name].type}")
    return values


@dataclass(frozen=True)
class IterationRecord(Sized):
    """One pass over the rows.

    Parameters
    ----------
    iteration : int
        Number of the pass, from 0.
    phase : {"warm-up", "training", "final"}
        E-steps alone, E- and M-steps, or the evaluation of the returned parameters.
    free_energy : float
        Per row, in nats; a lower bound of `score` of the parameters that the pass evaluated.
    change : float
        Gain of the free energy since the pass before, in the units of the run's `tol` (nats per feature, or relative
        without `standardize`); NaN for the first pass.
    joints_per_row : float
        Log-joints evaluated per row, on all features.
    n_joints : int
        Log-joints evaluated, on all features: with screening fewer than there are candidates.
    rows_per_second : float
        Rows over `seconds`.
    seconds : float
        Wall-clock time of the pass, as the driver saw it.
    seconds_per_phase : dict of str to float
        Wall-clock time by phase, summed over tasks.
    n_alive : int
        Components with positive weight after the pass.
    dropped : tuple of int
        Components that lost their last row in this pass (no row keeps them with a responsibility above 1e-12).
    sum_of_counts : float or None
        Σ N_c over the components, which is N up to rounding; None where no moments were summed.
    split : tuple of int
        Components that lost their last row in this pass and took half of another component.
    bytes_read : int
        Bytes read from the store of the rows, as they are stored; rows that workers keep in memory are read in the
        first pass alone.
    validation : float or None
        Free energy per held-out row of the parameters that the pass evaluated, in nats; None where they were not
        evaluated.
    """

    iteration: int
    phase: str
    free_energy: float
    change: float
    joints_per_row: float
    n_joints: int
    rows_per_second: float
    seconds: float
    seconds_per_phase: dict[str, float] = field(default_factory=dict)
    n_alive: int = 0
    dropped: tuple[int, ...] = ()
    sum_of_counts: float | None = None
    split: tuple[int, ...] = ()
    bytes_read: int = 0
    validation: float | None = None

    def line(self) -> str:
        """The record as one line of a log.

        Returns
        -------
        str
        """
        dropped = f", dropped {len(self.dropped)}" if self.dropped else ""
        dropped += f", split {len(self.split)}" if self.split else ""
        held_out = f"  validation {self.validation:.4f}" if self.validation is not None else ""
        read = f"  {self.bytes_read / 1e6:.0f} MB read" if self.bytes_read else ""
        return (
            f"{self.phase:8s} {self.iteration:3d}  free energy {self.free_energy:12.4f}  change {self.change:9.2e}  "
            f"{self.joints_per_row:6.1f} joints/row  {self.rows_per_second:9.0f} rows/s  {self.seconds:6.2f} s  "
            f"{self.n_alive} components{dropped}{held_out}{read}"
        )

    @classmethod
    def from_json(cls, values: Any, number: int) -> IterationRecord:
        """A record of a history that was written as JSON, which has no NaN.

        Parameters
        ----------
        values : object
            What the JSON holds.
        number : int
            Number of the record, for messages.

        Returns
        -------
        IterationRecord

        Raises
        ------
        ValueError
            Naming the field.
        """
        change = values.get("change", 0.0) if isinstance(values, dict) else 0.0
        unknown = change is None or change != change  # the first versions wrote NaN all the same
        known = check_fields(cls, {**values, "change": 0.0} if unknown else values, f"record {number}")
        names = {name: tuple(known.get(name, ())) for name in ("dropped", "split")}
        return cls(**{**known, **names, "change": math.nan if unknown else known["change"]})

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for tables and files.

        Returns
        -------
        dict of str to object
        """
        return asdict(self)
