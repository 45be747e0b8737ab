"""The overview that ``trivium --help`` prints: word for word Click's, without the time of importing Click."""

import os

PURPOSE = "Evaluate LLM agents and say how far each number can be trusted."

COMMANDS = {
    "run": ("trivium.cli.run:run", "Ask an agent, score what it did, store and print it."),
    "score": ("trivium.cli.score:score", "Score outputs and traces recorded elsewhere."),
    "show": ("trivium.cli.show:show", "Print a run, or write it as HTML, Markdown or JUnit."),
    "list": ("trivium.cli.list:list_runs", "List the stored runs."),
    "compare": ("trivium.cli.compare:compare", "Say whether a run is worse than the one before it."),
    "pairs": ("trivium.cli.pairs:pairs", "Let a judge say which of two runs has the better outputs."),
    "trust": ("trivium.cli.trust.group:trust", "Risk and coverage, calibration, judges against people."),
    "traces": ("trivium.cli.traces.group:traces", "Read other tools' traces: count them, or convert them."),
    "export": ("trivium.cli.export:export", "Write a run's data as JSONL, CSV or Parquet."),
    "schema": ("trivium.cli.schema:schema", "Print the JSON Schema of a file format, for editors."),
    "doctor": ("trivium.cli.doctor:doctor", "Say what is installed, what is not, and what to do."),
    "demo": ("trivium.cli.demo:demo", "Run the example reviewer on its papers and score it."),
    "completion": ("trivium.cli.completion:completion", "Print the lines that complete commands in a shell."),
}
"""Of each command where it is (``package.module:name``), and what it does in one line."""

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_LEVEL_HELP = "What is told on standard error about decisions made."
LOG_FILE_HELP = "Also write the log here, as JSON lines with secrets masked."

_OPTIONS = {
    "--version": "Show the version and exit.",
    f"--log-level [{'|'.join(LOG_LEVELS)}]": f"{LOG_LEVEL_HELP}  [default: warning]",
    "--log-file FILE": LOG_FILE_HELP,
    "-h, --help": "Show this message and exit.",
}

WIDEST = 100
"""Columns of a help text, however wide the terminal."""

_WIDEST_TERM = 30
_MARGIN = 2


def columns() -> int:
    """Columns of a help text here. Click would import shutil and its archivers to ask."""
    try:
        found = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        found = 80
    return max(50, min(found, WIDEST) - 2)


def overview(width: int) -> str:
    """What ``trivium --help`` prints.

    Args:
        width: Columns, 48 or more.
    """
    parts = [
        "Usage: trivium [OPTIONS] COMMAND [ARGS]...\n",
        *_wrapped(PURPOSE, width - _MARGIN),
        "\nOptions:",
        *_rows(_OPTIONS, width),
        "\nCommands:",
        *_rows({name: line for name, (_, line) in COMMANDS.items()}, width),
    ]
    return "\n".join(parts)


def _rows(rows: dict[str, str], width: int) -> list[str]:
    """Terms on the left, what they mean on the right."""
    left = min(max(map(len, rows)), _WIDEST_TERM) + _MARGIN
    lines: list[str] = []
    for term, text in rows.items():
        first, *more = _wrapped(text, width - left - _MARGIN, indent=left + _MARGIN)
        if len(term) > left - _MARGIN:
            lines += [f"  {term}", first]
        else:
            lines.append(f"  {term:<{left}}{first.lstrip()}")
        lines += more
    return lines


def _wrapped(text: str, width: int, *, indent: int = _MARGIN) -> list[str]:
    """Words in lines; two spaces between words stay, as Click leaves them."""
    lines: list[str] = []
    line = ""
    for word in (found.replace("\0", " ") for found in text.replace("  ", " \0").split(" ")):
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word.lstrip()
        else:
            line = f"{line} {word}" if line else word
    return [" " * indent + each for each in [*lines, line]]
