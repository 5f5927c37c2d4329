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
    """Values of a dataclass as JSON holds them, once each is of the type of its field.

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
    iteration : number of the pass, from 0
    phase : "warm-up" (E-steps alone), "training" (E- and M-steps) or "final" (evaluation of the returned parameters)
    free_energy : per row, in nats; a lower bound of `score` of the parameters that the pass evaluated
    change : gain of the free energy since the pass before, in the units of the run's `tol` (nats per feature, or
        relative without `standardize`); NaN for the first pass
    joints_per_row : log-joints evaluated per row
    n_joints : log-joints evaluated
    rows_per_second : rows over the seconds of the pass
    seconds : seconds of the pass, as the driver saw it
    seconds_per_phase : seconds by phase, summed over tasks
    n_alive : components with positive weight after the pass
    sum_of_counts : Σ N_c over the components, which is N up to rounding; None where no moments were summed
    split : components that lost their last row in this pass and took half of another component
    dropped : components that lost their last row in this pass (no row keeps them with a responsibility above 1e-12)
    bytes_read : bytes that were read from the store of the rows, as they are stored; rows that workers keep in memory
        are read in the first pass alone
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

    def line(self) -> str:
        """The record as one line of a log."""
        dropped = f", dropped {len(self.dropped)}" if self.dropped else ""
        dropped += f", split {len(self.split)}" if self.split else ""
        read = f"  {self.bytes_read / 1e6:.0f} MB read" if self.bytes_read else ""
        return (
            f"{self.phase:8s} {self.iteration:3d}  free energy {self.free_energy:12.4f}  change {self.change:9.2e}  "
            f"{self.joints_per_row:6.1f} joints/row  {self.rows_per_second:9.0f} rows/s  {self.seconds:6.2f} s  "
            f"{self.n_alive} components{dropped}{read}"
        )

    @classmethod
    def from_json(cls, values: Any, number: int) -> IterationRecord:
        """The record with this number of a history that was written as JSON, which knows no NaN.

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
        """Plain values, for tables and files."""
        return asdict(self)
