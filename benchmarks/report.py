"""Measured values and their bounds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """Collects checks and prints each of them.

    Parameters
    ----------
    checks : list of (str, float, str, bool)
        Name, value, bounds as text, and whether they held.
    """

    checks: list[tuple[str, float, str, bool]] = field(default_factory=list)

    def check(self, name: str, value: float, low: float | None = None, high: float | None = None) -> None:
        """Compare a value with its bounds, record and print it.

        Parameters
        ----------
        name : str
            What was measured.
        value : float
            The result.
        low, high : float, optional
            Bounds, inclusive.
        """
        ok = (low is None or value >= low) and (high is None or value <= high)
        bound = " and ".join(
            ([f">= {low:g}"] if low is not None else []) + ([f"<= {high:g}"] if high is not None else [])
        )
        self.checks.append((name, value, bound, ok))
        print(f"    {'holds' if ok else 'MISSED':6s}  {name}: {value:.6g} ({bound})", flush=True)

    def summary(self) -> str:
        """Format all checks as a table.

        Returns
        -------
        str
            One line per check.
        """
        width = max((len(name) for name, *_ in self.checks), default=0)
        lines = [
            f"{name:{width}s}  {value:12.6g}  {bound:20s}  {'holds' if ok else 'MISSED'}"
            for name, value, bound, ok in self.checks
        ]
        return "\n".join(lines)
