"""Errors as one line, and what was probably meant. May import: click."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import click

# Their messages name what was found and what is expected; any other type is a mistake of the package.
_EXPLAINED = (ArithmeticError, ImportError, KeyError, MemoryError, OSError, RuntimeError, TypeError, ValueError)


def suggestion(name: str, known: Iterable[str]) -> str:
    """What was probably meant.

    Parameters
    ----------
    name : str
        As it was given.
    known : iterable of str
        Names that exist.

    Returns
    -------
    str
        The end of a sentence; empty where nothing is similar.
    """
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def failure_line(error: BaseException) -> str:
    """Format an error of the work of a command.

    Parameters
    ----------
    error : BaseException
        Any error; its notes become a part of the line.

    Returns
    -------
    str
        A single line that begins with ``error:``.
    """
    message = error.args[0] if isinstance(error, KeyError) and error.args else error
    text = "; ".join(" ".join(str(part).split()) for part in (message, *getattr(error, "__notes__", ())))
    # Names in messages may come from foreign archives: control characters must not reach the terminal.
    text = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
    if not isinstance(error, _EXPLAINED):
        return f"error: {type(error).__name__}: {text} (--traceback shows where)"
    kind = type(error).__name__
    return f"error: out of memory: {text or kind}" if isinstance(error, MemoryError) else f"error: {text or kind}"


def usage_line(error: click.ClickException) -> str:
    """Format a mistake in the words of a call.

    Parameters
    ----------
    error : click.ClickException
        As click raises it, or a command.

    Returns
    -------
    str
        A single line that begins with ``error:``.
    """
    if isinstance(error, click.NoSuchOption):
        name, context = error.option_name, error.ctx
        known = [flag for p in context.command.get_params(context) for flag in p.opts] if context is not None else []
        return f"error: no such option {name}{suggestion(name, known)}"
    text = " ".join(error.format_message().split()).rstrip(".")
    if text == "Missing command":
        path = context.command_path if (context := getattr(error, "ctx", None)) else "vmfa-dask"
        text += f"; '{path} --help' lists them"
    return f"error: {text[:1].lower()}{text[1:]}"
