"""Every command's help shows how to call it, and what it shows is accepted."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from trivium.cli.main import trivium


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


def shown(path: tuple[str, ...]) -> tuple[click.Command, list[list[str]]]:
    """The command, and the arguments of each example in its help."""
    command: click.Command = trivium
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    call = f"trivium {' '.join(path)}"
    context = click.Context(command, info_name=call, terminal_width=200)
    examples = command.get_help(context).partition("Examples:\n")[2].splitlines()
    lines = [re.split(r"\s{2,}|\s[|>]", line.strip())[0] for line in examples]
    return command, [shlex.split(line.removeprefix(call)) for line in lines if line.startswith(call)]


@pytest.mark.parametrize("path", list(commands(trivium)), ids=" ".join)
def test_the_examples_of_a_command_use_its_options_choices_and_arguments(path: tuple[str, ...]) -> None:
    command, examples = shown(path)
    assert examples
    context = click.Context(command)
    for example in examples:
        given, unread, _ = command.make_parser(context).parse_args(
            list(example)
        )  # fails on an unknown option
        assert unread == []
        for parameter in command.params:
            value = given.get(parameter.name)
            is_given = value is not None and value != () and "UNSET" not in repr(value)
            assert is_given or not parameter.required, parameter.name
            if is_given and isinstance(parameter.type, click.Choice) and not parameter.multiple:
                parameter.type.convert(value, parameter, context)
