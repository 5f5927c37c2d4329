"""Options made of the typed keywords of a function and of its numpydoc, so that each is declared and described once.

May import: command, service, click.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from vmfa_dask.command.groups import SectionOption
from vmfa_dask.command.options import EXISTING, NEW_PATH, QUANTITY, SIZES

_PATHS_READ = ("start",)
# Rows, or a share of them.
_ROWS = ("validation",)


def parameter_docs(*docstrings: str | None) -> dict[str, str]:
    """Read the descriptions of parameters.

    Parameters
    ----------
    *docstrings : str or None
        In numpydoc; earlier ones count more.

    Returns
    -------
    dict of str to str
        Descriptions by name, each as one line.
    """
    docs: dict[str, str] = {}
    for docstring in docstrings:
        text = inspect.cleandoc(docstring or "").replace("\\\n", "")
        section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE)
        entries = re.findall(r"^(\S.*)\n((?:[ ].*\n|\n)+)", f"{section[1]}\n" if section else "", re.MULTILINE)
        for head, body in entries:
            for name in head.partition(" : ")[0].split(","):
                docs.setdefault(name.strip(), " ".join(body.split()).replace("`", ""))
    return docs


def keyword_options(
    keywords: type | Callable[..., Any],
    docs: Mapping[str, str],
    defaults: Mapping[str, Any],
    left_out: Collection[str] = (),
    section: str = "Options",
) -> list[click.Option]:
    """Make an option of each typed keyword.

    Parameters
    ----------
    keywords : type or callable
        A `TypedDict`, or a function.
    docs : mapping of str to str
        Descriptions by name.
    defaults : mapping of str to object
        Default values by name, which the help shows. The value of an option that is not given is None.
    left_out : collection of str
        Keywords that no option stands for.
    section : str
        Of the help.

    Returns
    -------
    list of click.Option
        In the order of the keywords.
    """
    hints = {name: hint for name, hint in get_type_hints(keywords).items() if name not in {*left_out, "return"}}
    return [_option(name, hint, docs.get(name, ""), defaults.get(name), section) for name, hint in hints.items()]


def _option(name: str, hint: Any, text: str, default: Any, section: str) -> click.Option:
    flag = f"--{name.replace('_', '-')}"
    kinds = set(get_args(hint)) - {NoneType} if get_origin(hint) in (Union, UnionType) else {hint}
    if default is not None and not isinstance(default, bool):
        text = f"{text} [default: {default}]"
    more: dict[str, Any] = {"help": text, "section": section, "default": None}
    if kinds == {bool}:
        return SectionOption([f"{flag}/--no-{flag[2:]}"], **more)
    if len(kinds) == 1 and get_origin(next(iter(kinds))) is tuple:
        (kind,) = kinds
        return SectionOption([flag], nargs=len(get_args(kind)), type=get_args(kind)[0], **more)
    metavar, kind_of_value = _value_of(name, kinds)
    return SectionOption([flag], type=kind_of_value, metavar=metavar, **more)


def _value_of(name: str, kinds: set[Any]) -> tuple[str | None, click.ParamType]:
    """What stands for the value in the help, and its type."""
    literal = next((kind for kind in kinds if get_origin(kind) is Literal), None)
    if literal is not None:
        return None, click.Choice(get_args(literal))
    if name in _PATHS_READ:
        return "PATH", EXISTING
    if name in _ROWS:
        return "SHARE|PATH", QUANTITY
    if any(get_origin(kind) is tuple for kind in kinds):
        return "N[,N...]", SIZES
    if kinds == {int}:
        return "N", click.INT
    if kinds == {float}:
        return "X", click.FLOAT
    if str in kinds and kinds & {int, float}:
        return "SIZE" if int in kinds else "TIME", QUANTITY
    if kinds == {str}:
        return "NAME", click.STRING
    return "PATH", NEW_PATH
