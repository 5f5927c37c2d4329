"""Kinds of values that options take, and options that several commands share. May import: command, click."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from vmfa_dask.command.groups import CLUSTER, Command, SectionOption
from vmfa_dask.command.messages import suggestion

Function = TypeVar("Function", bound=Callable[..., Any])

option = partial(click.option, cls=SectionOption)
"""`click.option` with the keyword `section`."""
command = partial(click.command, cls=Command)
"""`click.command` with the options that all commands have."""


class Existing(click.ParamType):
    """Path of something that exists, or a URL, which is not looked at."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check a value.

        Parameters
        ----------
        value : object
            As it was given.
        param : click.Parameter or None
            The option or argument.
        ctx : click.Context or None
            Of the command.

        Returns
        -------
        str
            The value; ``~`` is the user's home.

        Raises
        ------
        click.BadParameter
            Where nothing is at the path, with the name in its folder that was probably meant.
        """
        path: str = os.path.expanduser(os.fspath(value))
        if "://" in path or os.path.lexists(path):
            return path
        folder, name = os.path.split(os.path.normpath(path))
        try:
            neighbours = os.listdir(folder or ".")
        except OSError:
            self.fail(f"{path} does not exist, nor does its folder", param, ctx)
        meant = suggestion(name, neighbours)
        self.fail(f"{path} does not exist{meant}", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete paths."""
        return [CompletionItem(incomplete, type="file")]


class NewPath(click.ParamType):
    """Path or URL of what a command writes; whatever is there is left to the command."""

    name = "path"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete paths."""
        return [CompletionItem(incomplete, type="file")]


class Quantity(click.ParamType):
    """A number, or a text with a unit such as "1 GB", which the package reads later."""

    name = "quantity"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float | str:
        """Make numbers of texts that are one; see `click.ParamType.convert`."""
        for kind in (int, float):
            try:
                return kind(value) if isinstance(value, str) else value
            except ValueError:
                continue
        return str(value)


class Sizes(click.ParamType):
    """A whole number, or several with commas between."""

    name = "integers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | tuple[int, ...]:
        """Make numbers of a text; see `click.ParamType.convert`."""
        if isinstance(value, int):
            return value
        try:
            sizes = tuple(int(size) for size in (value.split(",") if isinstance(value, str) else value))
        except ValueError:
            self.fail(f"{value!r}: expected a whole number, or several as in 15,5,5", param, ctx)
        return sizes if len(sizes) > 1 else sizes[0]


EXISTING, NEW_PATH, QUANTITY, SIZES = Existing(), NewPath(), Quantity(), Sizes()


def with_options(options: Sequence[click.Option]) -> Callable[[Function], Function]:
    """Give a command options that were made elsewhere.

    Parameters
    ----------
    options : sequence of click.Option
        In the order of the help.

    Returns
    -------
    callable
        Decorator of the command's function, below `command`.
    """

    def add(function: Function) -> Function:
        params = function.__dict__.setdefault("__click_params__", [])
        params.extend(reversed(options))  # click reads them from the innermost decorator outwards
        return function

    return add



def scheduler_options() -> list[click.Option]:
    """Make the options that say which scheduler a command connects to.

    Returns
    -------
    list of click.Option
        Their values are those of `clusters.Cluster`.
    """
    pem: dict[str, Any] = {"section": CLUSTER, "type": EXISTING, "metavar": "FILE"}
    return [
        SectionOption(
            ["--scheduler"], metavar="ADDRESS", section=CLUSTER, help="Dask scheduler, such as tcp://host:8786."
        ),
        SectionOption(["--tls-ca"], help="Certificate of the authority that a tls:// scheduler trusts.", **pem),
        SectionOption(["--tls-cert"], help="Certificate of this client.", **pem),
        SectionOption(["--tls-key"], help="Key of this client.", **pem),
    ]


def cluster_options() -> list[click.Option]:
    """Make the options that say where a fit works: on a scheduler's cluster, or on one of this machine.

    Returns
    -------
    list of click.Option
        Their values are those of `clusters.Cluster`.
    """
    whole = click.IntRange(min=1)
    return [
        *scheduler_options(),
        SectionOption(
            ["--workers"], type=whole, metavar="N", section=CLUSTER,
            help="Start N worker processes on this machine. By default a cluster inside this process, with all cores.",
        ),
        SectionOption(
            ["--threads"], type=whole, metavar="N", section=CLUSTER, help="Threads that compute in each worker.",
        ),
        SectionOption(
            ["--memory-limit"], type=QUANTITY, metavar="SIZE", section=CLUSTER,
            help="Memory of each worker on this machine, such as '4 GB'. By default its share of the memory.",
        ),
    ]  # fmt: skip
