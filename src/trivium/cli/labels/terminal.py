"""Asks for labels in the terminal, a line at a time, so that it also works through a pipe."""

import secrets
from typing import TYPE_CHECKING

import click

from trivium.errors import InputError
from trivium.labels.blind import Material, material_of
from trivium.labels.progress import progress_of
from trivium.safe_text import cut, visible

if TYPE_CHECKING:
    from trivium.labels.queue import LabelQueues
    from trivium.store.labels import Answer, LabelQueue, StoredLabel, Task

SHOWN = 3_000
"""Characters of each text that are shown at first."""

WITHOUT_VALUE: "dict[str, Answer]" = {"s": "skip", "c": "cannot_tell"}
"""Answers by key that have no value."""

KEYS = "s skip · c cannot tell · u undo · v view all · t trace · n TEXT note · q quit"


def label_in_terminal(queues: "LabelQueues", queue: "LabelQueue", by: str) -> None:
    """Ask a person for labels until nothing is left, or they quit (``q``, or the end of the input).

    Args:
        queues: The queues of the store.
        queue: The queue.
        by: Name of the person.
    """
    choices = {choice.key: choice for choice in queue.settings.choices}
    _say_what_is_asked(queue)
    shown: tuple[int, str] | None = None
    given, note = 0, None
    while True:
        task = queues.next(queue.id, by)
        if task is None:
            click.echo("Nothing is left for you in this queue.")
            break
        if shown is None or shown[0] != task.place:
            shown, note = (task.place, secrets.token_hex(16)), None
            _print_item(queues, queue, task)
        line = _read()
        if line is None or line == "q":
            break
        if line in {"v", "t"}:
            material = material_of(queues.store, task)
            _print_trace(material) if line == "t" else _print_material(material, at_most=None)
        elif line.startswith("n "):
            note = line[2:].strip()
            click.echo("noted")
        elif line == "u":
            given, shown = max(0, given - _taken_back(queues, queue, by)), None
        else:
            value = choices[line].value if line in choices else _number(line)
            if value is None and line not in WITHOUT_VALUE:
                click.echo(f'"{visible(line[:40])}" is no answer: {_answers(queue)} · {KEYS}')
                continue
            answer = WITHOUT_VALUE.get(line, "label")
            try:
                stored = queues.answer(queue.id, task.place, by, answer, value, key=shown[1], note=note)
            except InputError as error:  # such as answered meanwhile in another window
                click.echo(f"not stored: {error}")
                shown = None
                continue
            _say_if_left_out(queue, stored)
            given += answer != "skip"
    _say_so_far(queues, queue, given)


def _say_if_left_out(queue: "LabelQueue", label: "StoredLabel") -> None:
    if label.how == "volunteered" and not queue.settings.volunteered:
        click.echo("kept, and not counted: your reservation was over, and others have the item now")


def _taken_back(queues: "LabelQueues", queue: "LabelQueue", by: str) -> int:
    """Take back the last answer; returns how many answers other than skips that were."""
    last = queues.last(queue.id, by)
    if last is not None:
        queues.undo(queue.id, by, label=last.number)
    if last is None or last == queues.last(queue.id, by):
        click.echo("there is nothing to take back")
        return 0
    click.echo("taken back")
    return int(last.answer != "skip")


def _say_what_is_asked(queue: "LabelQueue") -> None:
    click.echo(f"{visible(queue.dimension)}: {visible(queue.settings.asks)}".removesuffix(": "))
    for choice in queue.settings.choices:
        means = f": {visible(choice.means)}" if choice.means else ""
        click.echo(f"  {choice.key}  {visible(choice.name)} ({choice.value:g}){means}")
    click.echo("  or a number from 0.0 to 1.0, with a point")
    click.echo(KEYS)


def _answers(queue: "LabelQueue") -> str:
    return " ".join(choice.key for choice in queue.settings.choices) + " or a number such as 0.8"


def _print_item(queues: "LabelQueues", queue: "LabelQueue", task: "Task") -> None:
    click.echo(f"\n── item {task.place:,} · up to {queue.population:,} ──")
    try:
        _print_material(material_of(queues.store, task), at_most=SHOWN)
    except InputError as error:  # deleted between being given out and being shown
        click.echo(f"{error}: answer c")


def _print_material(material: Material, *, at_most: int | None) -> None:
    parts = [("input", material.input_text), ("source", material.source or "")]
    parts += [("reference", reference) for reference in material.references]
    parts += [("output", material.output_text or "(empty)")]
    for name, text in parts:
        if text:
            start, more = (text, 0) if at_most is None else cut(text, at_most=at_most)
            click.echo(click.style(f"{name}:", bold=True))
            click.echo(visible(start))
            if more:
                click.echo(f"… {more:,} more characters: v")
    if material.trace is not None and at_most is not None:
        click.echo(f"trace: {len(material.trace.spans):,} spans: t")


def _print_trace(material: Material) -> None:
    if material.trace is None:
        click.echo("there is no trace")
        return
    for span in material.trace.spans:
        failed = "  failed" if span.ok is False else ""
        click.echo(f"  {span.kind:<6} {visible(span.name)}{failed}")


def _read() -> str | None:
    try:
        line: str = click.prompt("", prompt_suffix="> ", default="", show_default=False)
    except (click.Abort, EOFError):
        click.echo()
        return None
    return line.strip()


def _number(line: str) -> float | None:
    """A score typed with a decimal point; a whole number might be meant as a key."""
    if "." not in line and "," not in line:
        return None
    try:
        value = float(line.replace(",", "."))
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None


def _say_so_far(queues: "LabelQueues", queue: "LabelQueue", given: int) -> None:
    from trivium.cli.labels.tables import estimate_lines

    progress = progress_of(queues, queue.id)
    click.echo(f"\n{given:,} answers now, {progress.answered:,} of {queue.population:,} items in all")
    for line in estimate_lines(progress):
        click.echo(line)
    click.echo(f"continue: trivium label --queue {queue.id}")
