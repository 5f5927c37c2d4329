"""What the display of a fit says, in words and numbers. May import: run, cluster."""

from __future__ import annotations

from collections.abc import Sequence

from vmfa_dask.cluster.quantities import seconds_as_text
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.state import DONE, FINAL, TRAINING, WARM_UP, RunState

# Passes from whose mean time that of the others is estimated.
RECENT = 5


def most_passes(phase: str, settings: Settings) -> int:
    """Most passes of a phase.

    Parameters
    ----------
    phase : str
        Warm-up, training or final.
    settings : Settings
        Of the run.

    Returns
    -------
    int
    """
    return settings.warmup_passes if phase == WARM_UP else settings.max_iter if phase == TRAINING else 1


def most_seconds_left(state: RunState, settings: Settings, recent: Sequence[float], share_done: float = 0.0) -> float:
    """Time that a run takes if all passes that are allowed are made, and take as long as the last ones.

    Parameters
    ----------
    state : RunState
        Where the run stands.
    settings : Settings
        Of the run.
    recent : sequence of float
        Seconds of the last passes; at least one.
    share_done : float
        Part of the pass in progress that is done.

    Returns
    -------
    float
        Seconds; 0 for a run that is done.
    """
    if state.phase == DONE:
        return 0.0
    n_left = 1.0
    if state.phase != FINAL:
        n_left += most_passes(state.phase, settings) - state.passes
    if state.phase == WARM_UP:
        n_left += settings.max_iter
    return (n_left - share_done) * sum(recent) / len(recent)


def position(state: RunState, settings: Settings | None) -> str:
    """The pass in progress, by its phase and number.

    Parameters
    ----------
    state : RunState
        Where the run stands; not done.
    settings : Settings or None
        Of the run; None where its limits are not known.

    Returns
    -------
    str
        Such as "training: pass 3 of at most 100".
    """
    if state.phase == FINAL:
        return "evaluation"
    most = "" if settings is None else f" of at most {most_passes(state.phase, settings)}"
    return f"{state.phase}: pass {state.passes + 1}{most}"


def fitting(parts: list[str], columns: int) -> str:
    """As many parts as a line holds.

    Parameters
    ----------
    parts : list of str
        The most important first, which is cut if it is too long.
    columns : int
        Length of the line.

    Returns
    -------
    str
    """
    text = parts[0][:columns]
    for part in parts[1:]:
        if len(text) + 2 + len(part) > columns:
            break
        text += f", {part}"
    return text


def rounded(seconds: float) -> str:
    """A time in two digits or so.

    Parameters
    ----------
    seconds : float
        At least 0.

    Returns
    -------
    str
        Such as "42 s", "12 min" or "5 h".
    """
    for size, unit in ((1, "s"), (60, "min")):
        if seconds < 100 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 3600:.0f} h"


def summary(state: RunState, record: IterationRecord) -> str:
    """What remains of a phase that is complete.

    Parameters
    ----------
    state : RunState
        After the phase.
    record : IterationRecord
        Of its last pass.

    Returns
    -------
    str
        One line.
    """
    passes = [each for each in state.records if each.phase == record.phase]
    seconds = seconds_as_text(sum(each.seconds for each in passes))
    count = f"{len(passes)} pass{'es' if len(passes) > 1 else ''}"
    end = ""
    if record.phase == TRAINING and state.stopped:
        end = ", stopped by held-out rows"
    elif record.phase == TRAINING:
        end = ", converged" if state.converged else ", the free energy fell" if state.fell else ", max_iter reached"
    return f"{record.phase}: {count} in {seconds}{end}, free energy {record.free_energy:.4f}"
