"""A list of stored runs as blocks."""

from collections.abc import Iterator

from trivium.reports import wording
from trivium.reports.document.blocks import ANSWERS, Block, Column, Paragraph, Tone, Toned, table
from trivium.store.browsing.before import AgainstBefore
from trivium.store.records import RunNames

PRODUCTION = "live-…: samples of production, unweighted; figures of all traffic: trivium monitor status"

STATES: dict[str, Tone] = {"done": "good", "interrupted": "warn"}


class RunRow(RunNames, frozen=True, kw_only=True):
    """One run in a list of runs; what it is called by is in :class:`RunNames`.

    Attributes:
        kind: agent, recorded, human, live (a monitor's samples of one day), or confirm.
        confirms: Id of the run that a run of kind confirm asks again, else None.
        started: Seconds since the UNIX epoch, or None if unknown.
        state: running, interrupted, done, …
        attempts: Attempts that are stored.
        due: Attempts that the run should have; 0 if nobody knows, as of a day of production.
        pass_rate: In [0, 1], or None.
        composite: Mean, in [0, 1], or None, also if the suite does not use it.
        before: The answer against the run before it, if that was computed.
        name: What people call it: suite, version or message of the commit, agent.
        fingerprint: Digest of the agent's code, by which versions without a name are told apart, or None.
    """

    run: str
    suite: str
    started: float | None
    state: str
    attempts: int
    due: int
    pass_rate: float | None = None
    composite: float | None = None
    kind: str = "agent"
    confirms: str | None = None
    before: AgainstBefore | None = None
    name: str = ""
    fingerprint: str | None = None


def runs_blocks(rows: list[RunRow], *, older: bool = False) -> Iterator[Block]:
    """Yield the blocks of a list of runs, in the order given.

    Args:
        rows: The runs.
        older: Whether there are further, older runs.
    """
    if not rows:
        yield Paragraph(("no runs yet",), "quiet")
        return
    live = PRODUCTION if any(row.kind == "live" for row in rows) else ""
    more = f"… and older ones (--limit, now {len(rows):,})" if older else ""
    yield table(COLUMNS, rows, label="Runs", notes=(live, more))


def _name(row: RunRow) -> str:
    return (row.name or row.suite) + (f", confirms {row.confirms}" if row.confirms else "")


def _before(row: RunRow) -> Toned | str:
    if row.before is None:
        return wording.NOTHING
    if row.before.verdict is None:
        return Toned("cannot be compared", "quiet")
    words = f"{row.before.words} {wording.signed(row.before.delta)}"
    return Toned(words, ANSWERS[row.before.answer or "inconclusive"][1])


def _attempts(row: RunRow) -> str:
    complete = row.attempts == row.due or not row.due
    return f"{row.attempts:,}" if complete else f"{row.attempts:,}/{row.due:,}"


COLUMNS: tuple[Column[RunRow], ...] = (
    Column("run", lambda row: Toned(_name(row), "strong"), "name"),
    Column("id", lambda row: row.run, "name"),
    Column("against the run before", _before, "text", where="wide", optional=True),
    # A run's id begins with its start time, so a narrow terminal does without the column.
    Column("started (UTC)", lambda row: wording.moment(row.started), "interval", where="wide"),
    Column("state", lambda row: Toned(row.state, STATES.get(row.state, "")), "text"),
    Column("attempts", _attempts),
    Column("passed", lambda row: wording.known_share(row.pass_rate)),
    Column("composite", lambda row: wording.number(row.composite), optional=True),
)
