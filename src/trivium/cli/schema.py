"""``trivium schema`` and ``trivium completion``: text for editors and shells."""

import click
from click.shell_completion import get_completion_class

from trivium.cli import options
from trivium.cli.options import Choice


@click.command(
    epilog=options.examples(
        "trivium schema suite --output suite.schema.json",
    )
)
@click.argument(
    "what",
    type=options.Choice(["suite", "rubric", "case", "output", "item", "label", "judgement"]),
    default="suite",
)
@options.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write it here.")
def schema(what: str, output: str | None) -> None:
    """Print the JSON Schema of a suite file (default) or of a rubric file.

    For cases, outputs, items, labels and judgements: the schema of one line of such a file.
    """
    from pathlib import Path

    import msgspec

    from trivium.agents.recorded.outputs import output_schema
    from trivium.errors import InputError
    from trivium.runs.items.records import Item, Judgement, Label
    from trivium.suites.case import Case
    from trivium.suites.json_schema import record_schema, suite_schema
    from trivium.suites.rubrics.rubric import Rubric

    records: dict[str, type[msgspec.Struct]] = {
        "rubric": Rubric,
        "case": Case,
        "item": Item,
        "label": Label,
        "judgement": Judgement,
    }
    if what in records:
        document = record_schema(records[what])
    else:
        document = suite_schema() if what == "suite" else output_schema()
    text = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_bytes(text)
    except OSError as error:
        raise InputError(output, f"cannot be written: {error.strerror}") from error


@click.command(
    epilog=options.examples(
        "trivium completion bash >> ~/.bashrc",
        "trivium completion zsh > ~/.zfunc/_trivium",
    )
)
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the lines that complete trivium's commands and options in SHELL."""
    from trivium.cli.main import trivium

    cls = get_completion_class(shell)
    if cls is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(cls(trivium, {}, "trivium", "_TRIVIUM_COMPLETE").source())
