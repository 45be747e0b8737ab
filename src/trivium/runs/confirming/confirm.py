"""Decides the comparison of two stored runs by asking their agents again, where that tells most.

Definition: docs/definitions/decisions.md#confirm.
"""

from pathlib import Path
from typing import Any, Unpack

from trivium.errors import InputError, Problem
from trivium.keywords import keywords, taken
from trivium.runs.comparing.compare import compare
from trivium.runs.comparing.comparison import Comparison, Statistics
from trivium.runs.comparing.decision import Options
from trivium.runs.confirming.confirmation import Agents, Confirmation
from trivium.runs.event_loop import run_in_trivium_thread
from trivium.runs.pipeline import NoProgress, Progress
from trivium.runs.run import Run
from trivium.runs.start import writable
from trivium.store.connection import DEFAULT_URL
from trivium.store.store import Store


class ConfirmationOptions(Statistics, total=False):
    """Keywords of :func:`confirm`.

    Attributes:
        margin: The loss that does not matter; see :func:`trivium.compare` for this and the next five.
        level: Confidence level of the intervals.
        resamples: Number of bootstrap resamples.
        seed: Seed of the bootstrap.
        policy: How the answer is made.
        about: Which question decides.
        agent: The agent of head: what :func:`trivium.evaluate` takes, or a suite file that names it; by
            default the one that head names.
        base_agent: The agent of base. By default the one that base names, if it is known to be still of that
            version; without it only head is asked.
        version: Name of the version that ``agent`` is; refused if head is of another one.
        store: The store, or its URL, of runs that are given by id.
        progress: Receives the progress.
    """

    agent: Any
    base_agent: Any
    version: str | None
    store: str | Path | Store
    progress: Progress | None


_keywords = keywords(store=DEFAULT_URL)


@_keywords
def confirm(
    base: str | Run, head: str | Run, *, calls: int, **options: Unpack[ConfirmationOptions]
) -> Comparison:
    """Ask the agents of two compared runs again, where that tells most, until the comparison is decided.

    The further attempts are stored in runs of their own, which every comparison of the two runs counts. A
    call that is interrupted, or killed, is gone on with by the same call: stored attempts are not made again,
    and count among its calls. Where the comparison is decided already, nothing is asked.

    Definition: docs/definitions/decisions.md#confirm.

    Args:
        base: The baseline run, or its id.
        head: The candidate run, or its id.
        calls: Most calls of the agents, of both sides together, at least 1.
        **options: See :class:`ConfirmationOptions`.

    Raises:
        InputError: If an option, a run or an agent is wrong, the agent is known to be of another version, or
            all its first attempts fail.
        ComparisonError: If the runs are not comparable.
        StoreError: If there is no such run, or the store fails; everything stored before stays.
    """
    return run_in_trivium_thread(lambda: confirm_async(base, head, calls=calls, **options))


@_keywords
async def confirm_async(
    base: str | Run, head: str | Run, *, calls: int, **options: Unpack[ConfirmationOptions]
) -> Comparison:
    """Confirm inside a running event loop.

    Arguments, result and errors are those of :func:`confirm`.
    """
    statistics: Statistics = taken(Statistics, options)
    if calls < 1:
        raise InputError("", Problem("calls", f"found {calls:,}, expected at least 1"))
    opened = _opened(base, head, options["store"])
    runs = _finished(base, opened), _finished(head, opened)
    stop = runs[1].provenance.until_decided
    if stop is not None and stop.against == runs[0].id:
        what = f"was asked until its comparison with {stop.against} was decided, which is its answer: "
        raise InputError(f"run {runs[1].id}", f"{what}confirming needs a run without --until-decided")
    comparison = compare(*runs, **statistics)
    confirmation = Confirmation(opened, runs, comparison, Options.of(runs[1], statistics))
    agents = Agents(options["agent"], options["base_agent"], options["version"])
    if await confirmation.ask(agents, calls=calls, progress=options["progress"] or NoProgress()):
        comparison = compare(*runs, **statistics)
    return comparison


def _opened(base: str | Run, head: str | Run, store: str | Path | Store) -> Store:
    """The store of both runs, for writing."""
    stores = [each.store for each in (base, head) if isinstance(each, Run)]
    if len({each.name for each in stores}) > 1:
        raise InputError("", "both runs must be in one store")
    return writable(stores[0] if stores else store)


def _finished(given: str | Run, store: Store) -> Run:
    run = Run.load(given.id if isinstance(given, Run) else given, store=store)
    if run.record.kind in {"human", "live", "confirm"}:
        raise InputError(f"run {run.id}", f"is of kind {run.record.kind}: it has no agent to ask again")
    if run.record.state != "done":
        raise InputError(f"run {run.id}", "is not finished: finish it first (--resume), then confirm")
    return run
