"""The program: its commands, and how it ends. May import: command, click."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import click

from vmfa_dask.command.groups import LazyGroup
from vmfa_dask.command.messages import failure_line, usage_line
from vmfa_dask.command.session import Session

FAILED, USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes; 0 is success."""


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from vmfa_dask import __version__

        click.echo(f"vmfa-dask {__version__}")
        ctx.exit()


_VERSION = click.Option(
    ["--version"], is_flag=True, expose_value=False, is_eager=True, callback=_show_version,
    help="Show the version and exit.",
)  # fmt: skip
PROGRAM = LazyGroup(
    "vmfa-dask",
    {
        "prepare": ("prepare", "Turn files into a Zarr store of rows."),
        "fit": ("fit", "Train a mixture on the rows of a store."),
        "resume": ("runs", "Continue a run that was interrupted, or train it further."),
        "status": ("runs", "Say how far a run has come."),
        "inspect": ("inspection", "Say what a store, a model or a run holds."),
        "score": ("models", "Compute log-densities of rows."),
        "predict": ("models", "Compute the most probable component of each row."),
        "sample": ("models", "Draw rows from a model."),
        "denoise": ("denoising", "Remove the noise of an image."),
        "plan": ("planning", "Project the memory that a fit takes."),
        "warm-up": ("planning", "Compile kernels ahead of a fit."),
    },
    help="Train mixtures of factor analyzers on more rows than memory holds, and use them.",
    params=[_VERSION],
    epilog="'vmfa-dask COMMAND --help' describes a command.",
)



def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Words of the call; by default those of the process.

    Returns
    -------
    int
        The exit code: 0, 1 after an error of the work, 2 for a mistake in the call, 130 after Ctrl-C. Errors are one
        line on the error stream.

    Raises
    ------
    SystemExit
        When a signal asks for the end of the process during a fit, and after the answer to a shell that completes.
    """
    session = Session()
    words = None if arguments is None else list(arguments)
    with session.logging():
        try:
            PROGRAM.main(words, prog_name="vmfa-dask", standalone_mode=False, obj=session)
        except click.exceptions.Abort as abort:  # click makes this of an interrupt
            return _interrupted(abort.__cause__, session)
        except click.ClickException as error:
            print(usage_line(error), file=sys.stderr)
            return USAGE
        except Exception as error:
            _show_traceback(error, session)
            print(failure_line(error), file=sys.stderr)
            return FAILED
    return 0


def _interrupted(cause: BaseException | None, session: Session) -> int:
    if cause is not None:
        _show_traceback(cause, session)
    print(str(cause or "") or "interrupted", file=sys.stderr)
    return INTERRUPTED


def _show_traceback(error: BaseException, session: Session) -> None:
    if session.traceback:
        traceback.print_exception(error)
