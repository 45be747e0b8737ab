"""``trivium label``: labels in the terminal; makes, lists and closes queues; imports and exports labels."""

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trivium.cli import options
from trivium.cli.main import LazyCommands
from trivium.cli.options import Choice, option, user_name
from trivium.cli.output import print_answer, write_report
from trivium.errors import InputError
from trivium.keywords import taken

if TYPE_CHECKING:
    from trivium.labels.queue import LabelQueues
    from trivium.store.labels import LabelQueue, QueueSettings

HERE = "trivium.cli.labels.label"

COMMANDS = {
    "ask": (f"{HERE}:ask", "Label in the terminal; `trivium label RUN` does the same."),
    "queue": (f"{HERE}:queue", "Make a queue, for several people."),
    "list": (f"{HERE}:list_queues", "List the queues."),
    "show": (f"{HERE}:show", "Show the progress of a queue, and the estimate from its labels."),
    "agree": ("trivium.cli.labels.people:agree", "Measure how far people agree with one another."),
    "adjudicate": ("trivium.cli.labels.people:adjudicate", "Decide where people disagree."),
    "check": ("trivium.cli.labels.people:check", "Say whether a certificate still holds, and why not."),
    "close": (f"{HERE}:close", "Close a queue."),
    "export": (f"{HERE}:export", "Write labels as JSONL or CSV."),
    "import": (f"{HERE}:import_", "Read labels from a file into the store."),
}


class LabelCommands(LazyCommands):
    """A group that runs ``ask`` if its first argument is not the name of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with ``ask`` in front if they name no command."""
        if args and args[0] not in self.table and args[0] not in {"-h", "--help"}:
            args = ["ask", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=LabelCommands,
    table=COMMANDS,
    help="Collect people's labels: each item is asked with a known probability, most where the judge is "
    "unsure, so that estimates from the labels stay unbiased.",
    epilog=options.examples(
        "trivium label --dimension clarity             # the newest run",
        "trivium label 20261121-09 --dimension clarity",
        "trivium label export 20261121-09 --output labels.csv",
    ),
)
def label() -> None:
    """The group of the commands."""


by = option("--labeller", "by", metavar="NAME", help="Who labels. Default: the user of this machine.")
dimension = option("--dimension", metavar="D", required=True, help="The judged dimension, or another metric.")


queue_options = options.together(
    option(
        "--overlap",
        type=click.FloatRange(0, 1),
        default=0.0,
        help="Share of the items that several people label, to see how far they agree.",
    ),
    option(
        "--people",
        type=click.IntRange(2, 50),
        default=2,
        help="How many people label an item of the overlap.",
    ),
    option(
        "--lease-minutes",
        type=click.FloatRange(0, min_open=True),
        default=15.0,
        help="For how long an item is reserved for the person who has it in hand.",
    ),
    option("--seed", type=click.IntRange(0, 2**31 - 1), help="Seed of the draws. Default: random."),
    option(
        "--uniform",
        is_flag=True,
        help="All items equally likely throughout: a certificate can use every label.",
    ),
    option(
        "--uncertainty",
        metavar="NAME",
        help="Confidence that says where the judge is unsure. Default: the stated one.",
    ),
)
"""The options of a new queue."""


@contextmanager
def opened(store: str) -> Iterator["LabelQueues"]:
    """Open the queues of an existing store for writing."""
    from trivium.labels.queue import LabelQueues
    from trivium.store.store import Store

    with Store(store, create=False) as existing:
        yield LabelQueues(existing)


def person(name: str | None) -> str:
    """Return the name of the labeller; by default, the user of this machine."""
    if name is None:
        return user_name()
    from trivium.labels.people import typed_name

    return typed_name(name)


def newest(queues: "LabelQueues") -> str:
    """Return the id of the newest queue.

    Raises:
        InputError: If there is none.
    """
    found = queues.all(limit=1)
    if not found:
        raise InputError("", "the store has no queue of labels yet: trivium label RUN --dimension D")
    return found[0].id


def _settings(given: dict[str, Any]) -> "QueueSettings":
    """The settings of a new queue, by the options of the command line."""
    from trivium.store.labels import QueueSettings

    named = taken(("overlap", "people", "uncertainty", "uniform"), given)
    return QueueSettings(lease_seconds=given["lease_minutes"] * 60, **named)


def _queue_of_run(queues: "LabelQueues", run: str | None, given: dict[str, Any], *, by: str) -> "LabelQueue":
    settings, record = _settings(given), queues.store.run(run)
    return queues.create(record, given["dimension"], by=by, seed=given["seed"], settings=settings)


@options.command("trivium label ask 20261121-09 --dimension clarity --labeller ann")
@click.argument("run", required=False)
@option("--dimension", metavar="D", help="The judged dimension, or another metric.")
@option("--queue", "queue_id", metavar="QUEUE", help="Continue this queue. Default: the newest open one.")
@queue_options
@by
@options.store
def ask(run: str | None, **given: Any) -> int:
    """Label attempts of RUN (default: the newest) in the terminal, one after another.

    Verdicts, confidences and other people's labels are not shown. You can stop at any time; the estimate
    holds at every point.
    """
    from trivium.cli.labels.terminal import label_in_terminal

    if given["queue_id"] is None and given["dimension"] is None:
        raise click.UsageError("say what to label: --dimension D, or --queue QUEUE")
    with opened(given["store"]) as queues:
        who = person(given["by"])
        if given["queue_id"] is not None:
            chosen = queues.get(given["queue_id"])
        else:
            record = queues.store.run(run)
            found = queues.all(run=record.id, dimension=given["dimension"])
            still_open = [existing for existing in found if existing.closed is None]
            chosen = still_open[0] if still_open else _queue_of_run(queues, record.id, given, by=who)
        label_in_terminal(queues, chosen, who)
    return 0


@options.command("trivium label queue 20261121-09 --dimension clarity --overlap 0.2")
@click.argument("run", required=False)
@dimension
@option("--monitor", metavar="NAME", help="Ask about this monitor's samples of live traffic instead.")
@option(
    "--days",
    type=click.FloatRange(0, min_open=True),
    default=7.0,
    help="With --monitor: samples of the last days.",
)
@option(
    "--alert", type=click.IntRange(min=1), metavar="N", help="Ask about the worst samples before an alert."
)
@queue_options
@by
@options.store
@options.as_json
def queue(run: str | None, **given: Any) -> int:
    """Make a queue for the attempts of RUN (default: the newest), and print its id.

    Labels of an alert's samples say what went wrong, and never enter an estimate: they were chosen because
    they look bad.
    """
    with opened(given["store"]) as queues:
        made = _new_queue(queues, run, given, by=person(given["by"]))
    print_answer(made, lambda _: made.id, as_json=given["as_json"])
    if not given["as_json"]:
        command = f"trivium label --queue {made.id} --labeller NAME"
        click.echo(f"{made.population:,} items; each person: {command}, or Labels in trivium view", err=True)
    return 0


def _new_queue(queues: "LabelQueues", run: str | None, given: dict[str, Any], *, by: str) -> "LabelQueue":
    named = [name for name in ("monitor", "alert") if given[name] is not None]
    if len(named) + (run is not None) > 1:
        raise click.UsageError("name one of RUN, --monitor and --alert")
    if not named:
        return _queue_of_run(queues, run, given, by=by)
    from trivium.labels.monitored import queue_of_alert, queue_of_monitor

    how: dict[str, Any] = {"by": by, "settings": _settings(given)}
    if given["alert"] is not None:
        return queue_of_alert(queues, given["alert"], given["dimension"], **how)
    how |= {"since": queues.now() - given["days"] * 86_400, "seed": given["seed"]}
    return queue_of_monitor(queues, given["monitor"], given["dimension"], **how)


@options.command("trivium label list --dimension clarity", name="list")
@option("--dimension", metavar="D", help="Only queues of this dimension.")
@options.store
@options.as_json
def list_queues(*, dimension: str | None, store: str, as_json: bool) -> None:
    """List the queues, newest first."""
    from trivium.cli.labels.tables import queues_shown
    from trivium.labels.progress import progress_of

    with opened(store) as queues:
        found = [progress_of(queues, each.id) for each in queues.all(dimension=dimension, limit=50)]
    print_answer(found, queues_shown, as_json=as_json)


@options.command("trivium label show labels-1f2e3d4c")
@click.argument("queue", required=False)
@options.store
@options.as_json
def show(*, queue: str | None, store: str, as_json: bool) -> None:
    """Show the progress of QUEUE (default: the newest), and the mean score by its labels so far."""
    from trivium.cli.labels.tables import progress_text
    from trivium.labels.progress import progress_of

    with opened(store) as queues:
        progress = progress_of(queues, queue or newest(queues))
    print_answer(progress, progress_text, as_json=as_json)


@options.command("trivium label close labels-1f2e3d4c")
@click.argument("queue")
@by
@options.store
def close(*, queue: str, by: str | None, store: str) -> None:
    """Close QUEUE, so that nobody is asked further items. Its labels are kept."""
    with opened(store) as queues:
        queues.close(queue, person(by))
    click.echo(f"{queue} is closed; its labels are kept", err=True)


@options.command(
    "trivium label export 20261121-09 --dimension clarity --output labels.csv",
    "trivium label export --queue labels-1f2e3d4c > labels.jsonl",
)
@click.argument("run", required=False)
@option("--queue", "queue_id", metavar="QUEUE", help="Only labels of this queue, of any run.")
@option("--dimension", metavar="D", help="Only labels of this dimension.")
@option("--format", "format_", type=Choice(["jsonl", "csv"]), help="Default: by the name of --output.")
@options.output_file("--output", default="-", help="Default: standard output.")
@options.store
def export(
    run: str | None,
    *,
    queue_id: str | None,
    dimension: str | None,
    format_: str | None,
    output: Path,
    store: str,
) -> None:
    """Write the labels of RUN, or of a queue, with their labeller and sampling probability.

    `trivium trust … --labels FILE` and `trivium label import` read the file.
    """
    from trivium.labels.files import LABEL_COLUMNS, label_rows
    from trivium.store.export.tables import WRITERS

    kind = format_ or ("csv" if output.suffix.lower() == ".csv" else "jsonl")
    with opened(store) as queues:
        number = None if queue_id is None else queues.get(queue_id).number
        which = None if run is None and number is not None else queues.store.run(run).id
        document = io.BytesIO()
        rows = label_rows(queues.store, run=which, dimension=dimension, queue=number)
        WRITERS[kind](rows, LABEL_COLUMNS, document)
    write_report(output, document.getvalue())


@options.command("trivium label import 20261121-09 labels.csv", name="import")
@click.argument("run")
@click.argument("labels", type=click.Path(path_type=Path))
@by
@options.store
@options.as_json
def import_(run: str, labels: Path, *, by: str | None, store: str, as_json: bool) -> None:
    """Read LABELS (JSONL, CSV, Parquet) of the attempts of RUN into the store: all of them, or none.

    If the run has no queue, estimates use these labels as a random sample.
    """
    from trivium.labels.files import import_labels

    with opened(store) as queues:
        record = queues.store.run(run)
        done = import_labels(queues.store, record, labels, by=person(by), now=time.time())
    known = f"; {done.known:,} were there already" if done.known else ""
    print_answer(done, lambda _: f"{done.stored:,} labels imported{known}", as_json=as_json)
