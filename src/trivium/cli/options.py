"""Options that several commands share. Each can also be set by an environment variable TRIVIUM_…."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_STORE = "sqlite:///.trivium/store.db"


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """A Click option with its environment variable: ``--at-once`` is TRIVIUM_AT_ONCE."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "TRIVIUM_" + long.removeprefix("--").replace("-", "_").upper()
    return click.option(*names, envvar=variable, **settings)


store = option(
    "--store", default=DEFAULT_STORE, show_default=True, metavar="URL", help="Where runs are kept."
)
as_json = option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
encoder = option("--encoder", metavar="NAME|FOLDER", help="Encoder of the semantic score.")
metrics = option("--metrics", metavar="A,B,…", help="Metrics in place of the suite's.")
quiet = option("--quiet", is_flag=True, help="No progress and no table.")
resume = option("--resume", metavar="RUN", help="Finish a run that was cut short.")
inconclusive = option(
    "--inconclusive",
    type=click.Choice(["pass", "fail"]),
    help="What an inconclusive gate counts as (otherwise exit code 4).",
)


def reports(command: F) -> F:
    """The options that write a report beside the table."""
    path = click.Path(dir_okay=False)
    for name, what in (
        ("--html", "one self-contained HTML page"),
        ("--markdown", "Markdown, for a comment"),
        ("--junit", "JUnit XML, for CI"),
    ):
        command = option(name, type=path, metavar="FILE", help=f"Write {what}.")(command)
    return command


def split_names(text: str | None) -> list[str] | None:
    """``a, b`` as a list of names; None stays None."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]
