"""``trivium schema``: the JSON Schema of a file format, for editors."""

import click

from trivium.cli import options


@click.command()
@click.argument("what", type=click.Choice(["suite", "case", "output"]), default="suite")
@options.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write it here.")
def schema(what: str, output: str | None) -> None:
    """Print the JSON Schema of a suite file (default), of a case, or of a recorded output."""
    from pathlib import Path

    import msgspec

    from trivium.agents.recorded.outputs import output_schema
    from trivium.errors import InputError
    from trivium.suites.schema import case_schema, suite_schema

    made = {"suite": suite_schema, "case": case_schema, "output": output_schema}[what]()
    text = msgspec.json.format(msgspec.json.encode(made), indent=2).decode()
    if output is None:
        click.echo(text)
        return
    try:
        Path(output).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(output, f"cannot be written: {error.strerror}") from error
