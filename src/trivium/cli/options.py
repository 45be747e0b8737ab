"""Options that several commands share; each can also be set by an environment variable TRIVIUM_…."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_STORE = "sqlite:///.trivium/store.db"

STANDARD_OUTPUT = Path("-")
"""The name of a file to write that means standard output."""

_WRITERS = "trivium.standard_output"
"""Key in a Click context's ``meta`` of the options that write a document to standard output."""


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Make a Click option that an environment variable can set: ``--at-once`` is TRIVIUM_AT_ONCE.

    Its help ends with its default, if it has one.
    """
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "TRIVIUM_" + long.removeprefix("--").replace("-", "_").upper()
    return click.option(*names, **{"envvar": variable, "show_default": "default" in settings, **settings})


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Make a decorator that adds several options, in this order."""

    def with_options(command: F) -> F:
        for add in reversed(options):
            command = add(command)
        return command

    return with_options


def output_file(*names: str, **settings: Any) -> Callable[[F], F]:
    """Make an option that names a file to write, where ``-`` is standard output.

    A document there takes the place of what the command prints (:func:`prints_document`).
    """
    path = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
    settings = {"show_default": False, **settings}
    return option(*names, type=path, metavar="FILE", callback=_note_document, **settings)


def prints_document() -> bool:
    """Whether an option of the command writes a document to standard output, so that nothing else may."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_WRITERS))


def _note_document(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse a second option that writes to standard output: ``--json``, or a file called ``-``."""
    if value is True or value == STANDARD_OUTPUT:
        writers = context.meta.setdefault(_WRITERS, [])
        writers.append(parameter.opts[-1] if value is True else f"{parameter.opts[-1]} -")
        if len(writers) > 1:
            raise click.UsageError(
                f"{' and '.join(writers)} both write to standard output: name a file for one of them"
            )
    return value


def examples(*commands: str) -> str:
    """Return the end of a help text that shows these commands, a line each (use as ``epilog``)."""
    return "\n".join(("\b", "Examples:", *(f"  {command}" for command in commands)))


def command(*lines: str, name: str | None = None) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a Click command of a function, whose help ends with these examples, a line each."""
    return click.command(name, epilog=examples(*lines))


class Choice(click.Choice[str]):
    """A choice among words; the error for another word suggests the nearest one.

    Args:
        words: The words to choose from.
    """

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(words)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the error message for a word that is not among the choices."""
        from trivium.errors import suggest

        hint = suggest(str(value), self.choices)
        return f'found "{value}", expected one of {", ".join(self.choices)}.{hint}'


def file_names(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Let the shell complete file names for an argument."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _packaged_encoder() -> str | None:
    from trivium.metrics.text.encoders.loading import packaged_encoder

    return packaged_encoder()


store = option("--store", default=DEFAULT_STORE, metavar="URL", help="Where runs are stored.")
as_json = option(
    "--json",
    "as_json",
    is_flag=True,
    callback=_note_document,
    help="Print one JSON document and nothing else.",
)
encoder = option("--encoder", metavar="NAME|FOLDER", help="Encoder of the semantic score.")
demo_encoder = option(
    "--encoder",
    metavar="NAME|FOLDER",
    default=_packaged_encoder,
    show_default=False,
    help="Encoder of the semantic score.  [default: the one that `make demo` installs]",
)
metrics = option("--metrics", metavar="A,B,…", help="Metrics to use instead of the suite's.")
config = option("--config", metavar="FILE", help="A separate settings file, such as config_eval.json.")
quiet = option("--quiet", is_flag=True, help="Print no progress and no table.")
details = option("--details", is_flag=True, help="Print every reservation in full, and the whole provenance.")
certificate = option(
    "--certificate",
    multiple=True,
    metavar="FILE",
    help="A certificate of `trust certify --output`: says which judgements need no human review.",
)
version = option(
    "--version",
    envvar="TRIVIUM_AGENT_VERSION",  # TRIVIUM_VERSION may be that of Trivium
    metavar="NAME",
    help="The version of the agent: a comparison counts the attempts of all runs of one version.",
)
resume = option("--resume", metavar="RUN", help="Finish an interrupted run.")
workers = option(
    "--workers",
    type=click.IntRange(min=1),
    help="Processes that score (default: one for each core, once a run takes long).",
)
engine = option(
    "--engine",
    type=Choice(["local", "ray"]),
    default="local",
    help="Where it is computed: on this machine, or on a Ray cluster (that of RAY_ADDRESS).",
)
by = option(
    "--by",
    multiple=True,
    metavar="KEY",
    help="Break the figures down by tag, complexity, group or a metadata key; repeatable.",
)
policy = option(
    "--policy",
    type=Choice(["balanced", "proof", "strict"]),
    help="How to decide: by what is likely, by what is proven alone, or fail what is not proven to be good "
    "(default: the suite's, balanced).",
)
about = option(
    "--about",
    type=Choice(["these", "like-these"]),
    help="What decides: these very cases, run again, or other cases like-these (default: the suite's).",
)


reports = together(
    output_file("--junit", help="Write JUnit XML, for CI."),
    output_file("--markdown", help="Write Markdown, for a comment."),
    output_file("--html", help="Write one self-contained HTML page."),
)
"""The options that write a report to a file."""


def user_name() -> str:
    """The user of this machine."""
    from getpass import getuser

    try:
        return getuser()
    except (OSError, KeyError):  # the user id has no name, as in containers
        return "user"


def split_names(text: str | None) -> list[str] | None:
    """Split ``a, b`` into a list of names; None stays None."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]
