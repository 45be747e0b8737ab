"""``trivium schema``: the JSON Schema of a file format, for editors."""

import click

from trivium.cli import options


@click.command()
@click.argument(
    "what",
    type=options.Words(["suite", "rubric", "case", "output", "item", "label", "judgement"]),
    default="suite",
)
@options.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write it here.")
def schema(what: str, output: str | None) -> None:
    """Print the JSON Schema of a suite file (default), of a rubric file, or of one line of a file.

    Lines are those of files of cases, outputs, items, labels and judgements.
    """
    from pathlib import Path

    import msgspec

    from trivium.agents.recorded.outputs import output_schema
    from trivium.errors import InputError
    from trivium.runs.items.item import Item, Judgement, Label
    from trivium.suites.case import Case
    from trivium.suites.rubrics.rubric import Rubric
    from trivium.suites.schema import record_schema, suite_schema

    records: dict[str, type[msgspec.Struct]] = {
        "rubric": Rubric,
        "case": Case,
        "item": Item,
        "label": Label,
        "judgement": Judgement,
    }
    if what in records:
        made = record_schema(records[what])
    else:
        made = suite_schema() if what == "suite" else output_schema()
    text = msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_bytes(text)
    except OSError as error:
        raise InputError(output, f"cannot be written: {error.strerror}") from error
