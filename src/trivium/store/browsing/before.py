"""The answer of each run against the run before it, kept when it was first computed.

Definition: docs/definitions/comparisons.md#run-before.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import and_, delete, or_, select

from trivium.store import schema as tables
from trivium.store.connection import explain_errors, fetched, writing
from trivium.store.records import encode
from trivium.store.store import Store
from trivium.values import resolved

__all__ = ["AgainstBefore", "Before", "before", "forget_answers", "keep_answer"]

COMPARED = ("agent", "recorded", "human")
"""Kinds of runs that have a run before: the others hold other cases each time."""


@resolved
class AgainstBefore(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a run against the run before it.

    Attributes:
        base: Id of the run before.
        verdict: ``worse``, ``better``, …: see ``Comparison.verdict``; None if the two cannot be compared.
        answer: pass, fail or inconclusive, by the policy of the suite; None if they cannot be compared.
        words: The verdict with its probability, or why they cannot be compared.
        metric: What decided.
        delta: Its difference, or None.
        low: Lower end of the difference's interval, or None.
        high: Upper end of it, or None.
    """

    base: str
    verdict: str | None
    answer: str | None = None
    words: str
    metric: str | None = None
    delta: float | None = None
    low: float | None = None
    high: float | None = None


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """The run before a run, and the answer against it if that was computed.

    Attributes:
        run: Id of the run.
        number: Its number.
        touched: When it was last written, Unix time.
        base: Id of the run before.
        base_touched: When that was last written.
        answer: The answer; None if it was not computed, or one of the runs was written since.
    """

    run: str
    number: int
    touched: float
    base: str
    base_touched: float
    answer: AgainstBefore | None = None


_answer = msgspec.json.Decoder(AgainstBefore)


def before(store: Store, runs: Sequence[str]) -> dict[str, Before]:
    """Return the run before each of some finished runs, by id; a run without one is left out.

    Args:
        store: The store.
        runs: Ids of runs.
    """
    head, base, kept = tables.runs, tables.runs.alias("base"), tables.answers_before
    earlier = tables.runs.alias("earlier")
    newest = (
        select(earlier.c.number)
        .where(
            earlier.c.suite_name == head.c.suite_name,
            earlier.c.number < head.c.number,
            earlier.c.kind == head.c.kind,
            earlier.c.state == "done",
        )
        .order_by(earlier.c.number.desc())
        .limit(1)
        .correlate(head)
        .scalar_subquery()
    )
    holds = and_(
        kept.c.run == head.c.number,
        kept.c.id == head.c.id,
        kept.c.touched == head.c.touched,
        kept.c.base == base.c.id,
        kept.c.base_touched == base.c.touched,
    )
    query = (
        select(
            head.c.id.label("run"),
            head.c.number,
            head.c.touched,
            base.c.id.label("base"),
            base.c.touched.label("base_touched"),
            kept.c.body.label("answer"),
        )
        .select_from(head.join(base, base.c.number == newest).outerjoin(kept, holds))
        .where(head.c.id.in_(runs), head.c.state == "done", head.c.kind.in_(COMPARED))
    )
    return {row.run: _before(row) for row in fetched(store.engine, query)}


def _before(row: Any) -> Before:
    found = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it
    answer = found.pop("answer")
    return Before(answer=None if answer is None else _answer.decode(answer), **found)


def keep_answer(store: Store, pair: Before, answer: AgainstBefore) -> None:
    """Keep the answer of a run against the run before, in place of one that does not hold any more."""
    kept = tables.answers_before
    values = {name: getattr(pair, name) for name in ("touched", "base", "base_touched")}
    values |= {"run": pair.number, "id": pair.run, "body": encode(answer)}
    with writing(store.engine) as connection:
        connection.execute(delete(kept).where(kept.c.run == pair.number))
        connection.execute(kept.insert().values(values))


def forget_answers(store: Store, runs: Sequence[str]) -> None:
    """Forget the answers of some runs and against them, because further attempts count from now on."""
    kept = tables.answers_before
    with explain_errors(store.engine), store.engine.begin() as connection:
        connection.execute(delete(kept).where(or_(kept.c.id.in_(runs), kept.c.base.in_(runs))))
