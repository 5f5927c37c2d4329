"""Commands that are imported when they are called, and options that all of them have. May import: command, click."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from vmfa_dask.command.messages import suggestion
from vmfa_dask.command.session import Session

CLUSTER, _OTHER = "Cluster", "Other options"
_LAST = (CLUSTER, _OTHER)  # sections at the end of a help text, whatever the order of the options


class LazyGroup(click.Group):
    """A group that knows the names of its commands, and imports a command when it is called.

    Parameters
    ----------
    name : str
        Of the group.
    entries : mapping of str to (str, str)
        Module in this room that holds a command, and a line of help, by the name of the command. In the module the
        command has its name, with underscores.
    **keywords
        As those of `click.Group`.
    """

    def __init__(self, name: str, entries: Mapping[str, tuple[str, str]], **keywords: Any) -> None:
        super().__init__(name, no_args_is_help=False, **keywords)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, in the order of the help."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is no such command."""
        if cmd_name not in self._entries:
            return None
        module = importlib.import_module(f"vmfa_dask.command.{self._entries[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the words name.

        Parameters
        ----------
        ctx : click.Context
            Of the group.
        args : list of str
            Words that follow the group.

        Returns
        -------
        (str, click.Command, list of str)
            Name, command, and the words that follow it.

        Raises
        ------
        click.UsageError
            Naming the command that was probably meant.
        """
        if not ctx.resilient_parsing and args[0] not in self._entries and not args[0].startswith("-"):
            raise click.UsageError(f"no such command {args[0]}{suggestion(args[0], self._entries)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into a help text."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, or an option of the group."""
        entries = self._entries.items()
        names = [CompletionItem(name, help=text) for name, (_, text) in entries if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


class SectionOption(click.Option):
    """An option that stands in a section of the help.

    Parameters
    ----------
    *arguments
        As those of `click.Option`.
    section : str
        Title of the section.
    **keywords
        As those of `click.Option`.
    """

    def __init__(self, *arguments: Any, section: str = "Options", **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.section = section


class Command(click.Command):
    """A command with ``--verbose``, ``--quiet`` and ``--traceback``, whose help has a section for each kind of option.

    Parameters
    ----------
    *arguments, **keywords
        As those of `click.Command`.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.params.extend(_shared_options())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options into a help text, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            line = param.get_help_record(ctx)
            if line is not None and isinstance(param, click.Option):
                sections.setdefault(getattr(param, "section", _OTHER), []).append(line)
        for title in sorted(sections, key=lambda title: _LAST.index(title) if title in _LAST else -1):
            with formatter.section(title):
                formatter.write_dl(sections[title])


def _shared_options() -> list[click.Option]:
    def session(ctx: click.Context) -> Session:
        return ctx.ensure_object(Session)

    def louder(ctx: click.Context, param: click.Parameter, value: int) -> None:
        session(ctx).change_verbosity(value)

    def quieter(ctx: click.Context, param: click.Parameter, value: int) -> None:
        session(ctx).change_verbosity(-value)

    def with_traceback(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        session(ctx).traceback = value

    shared: dict[str, Any] = {"expose_value": False, "is_eager": True}
    return [
        click.Option(["-v", "--verbose"], count=True, callback=louder, help="Show more of the log.", **shared),
        click.Option(
            ["-q", "--quiet"], count=True, callback=quieter, help="Show warnings and errors; -qq errors.", **shared
        ),
        click.Option(
            ["--traceback"], is_flag=True, callback=with_traceback, help="Show where an error was raised.", **shared
        ),
    ]
