"""What a run tells about itself: one record per pass over the rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class IterationRecord:
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

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for tables and files."""
        return asdict(self)
