"""Options in TOML files: ``--config`` reads them, ``--dry-run`` prints them. May import: command, click."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

import click

from vmfa_dask.command.groups import SectionOption
from vmfa_dask.command.messages import suggestion
from vmfa_dask.command.options import EXISTING, QUANTITY, SIZES

# About a call, not about a fit.
_NOT_IN_FILES = ("dry_run",)


def names_in_files(params: Iterable[click.Parameter]) -> list[str]:
    """Names of the options and arguments that a file may hold.

    Parameters
    ----------
    params : iterable of click.Parameter
        Of a command.

    Returns
    -------
    list of str
        In their order; options such as ``--help``, which are not passed to the command, are not among them.
    """
    return [str(param.name) for param in params if param.expose_value and param.name not in _NOT_IN_FILES]


def config_option() -> click.Option:
    """Make the option ``--config``: values of a file stand for options that the command line leaves out.

    Returns
    -------
    click.Option
    """
    return SectionOption(
        ["--config"], type=EXISTING, metavar="FILE.toml", is_eager=True, expose_value=False, callback=_read,
        help="TOML file with values of options, n_components = 10 for --n-components 10. The command line counts more.",
    )  # fmt: skip


def _read(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    if path is not None:
        ctx.default_map = read_values(path, ctx.command.get_params(ctx))


def read_values(path: str, params: list[click.Parameter]) -> dict[str, Any]:
    """Read the values of options from a file.

    Parameters
    ----------
    path : str
        A TOML file.
    params : list of click.Parameter
        Options and arguments of the command.

    Returns
    -------
    dict of str to object
        Values by name.

    Raises
    ------
    click.UsageError
        When it is no TOML, or a key is unknown or has a value of another kind than its option.
    """
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from error
    names = names_in_files(params)
    known = {str(param.name): param for param in params if param.name in names}
    for name, value in values.items():
        if name not in known:
            meant = suggestion(name.replace("-", "_"), known)
            raise click.UsageError(f"{path}: no such key {name}{meant}")
        expected = _unexpected(known[name], value)
        if expected is not None:
            raise click.UsageError(f"{path}: {name} = {as_value(value)}: expected {expected}")
    return values


def _unexpected(param: click.Parameter, value: Any) -> str | None:
    """What is expected instead of a value; None where it is of the right kind."""
    is_whole, kinds = type(value) is int, param.type
    if isinstance(param, click.Option) and param.is_flag:
        return None if isinstance(value, bool) else "true or false"
    if param.nargs != 1:
        return None if isinstance(value, list) else "a list"
    if kinds is SIZES:
        several = isinstance(value, list) and value and all(type(size) is int for size in value)
        return None if is_whole or several else "a whole number, or a list of several"
    if kinds is QUANTITY:
        return None if is_whole or isinstance(value, str | float) else "a number, or a text"
    if isinstance(kinds, click.types.IntParamType):
        return None if is_whole else "a whole number"
    if isinstance(kinds, click.types.FloatParamType):
        return None if is_whole or isinstance(value, float) else "a number"
    return None if isinstance(value, str) else "a text"


def as_toml(values: Mapping[str, Any]) -> str:
    """Write values as TOML.

    Parameters
    ----------
    values : mapping of str to object
        Numbers, texts, truth values and sequences by name. None has no value in TOML: it becomes a comment.

    Returns
    -------
    str
        A line for each.
    """
    return "".join(
        f"# {name} is not set\n" if value is None else f"{name} = {as_value(value)}\n" for name, value in values.items()
    )


def as_value(value: Any) -> str:
    """Write a value as TOML.

    Parameters
    ----------
    value : object
        A number, a text, a truth value, or a sequence of these; others as text.

    Returns
    -------
    str
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_value, value))}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
