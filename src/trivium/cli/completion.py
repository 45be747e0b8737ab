"""``trivium completion``: the lines that complete commands in a shell."""

import click
from click.shell_completion import get_completion_class

from trivium.cli.options import Words


@click.command()
@click.argument("shell", type=Words(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the lines that complete trivium's commands and options in SHELL.

    For bash: trivium completion bash >> ~/.bashrc
    """
    from trivium.cli.main import trivium

    cls = get_completion_class(shell)
    if cls is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(cls(trivium, {}, "trivium", "_TRIVIUM_COMPLETE").source())
