"""A group of commands that are imported when they are called, so that ``--help`` is quick."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyCommands(click.Group):
    """Commands by name.

    Args:
        table: Of each command where it is (``package.module:name``), and what it does in one line.
    """

    def __init__(self, *args: Any, table: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        if cmd_name not in self.table:
            return None
        module, _, name = self.table[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The lines of the overview."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant, or the nearest word."""
        from trivium.errors import suggest

        if args and args[0] not in self.table and not args[0].startswith("-"):
            hint = suggest(args[0], self.table) or f" Commands: {', '.join(self.table)}"
            raise click.UsageError(f'there is no command "{args[0]}".{hint}', ctx)
        return super().resolve_command(ctx, args)
