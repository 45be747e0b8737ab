"""Where the spread of a run's scores comes from, as blocks."""

from collections.abc import Iterator
from math import sqrt

from trivium.reports import wording
from trivium.reports.document.blocks import Block, Column, Paragraph, Section, Surface, Table, Toned, table
from trivium.reports.escape import one_line
from trivium.reports.wording import counted, number, share
from trivium.runs.comparing.decision import listed
from trivium.runs.spread import Spread, SpreadPart
from trivium.runs.summary import Summary
from trivium.trust.crossed_components import Part

SOURCES: dict[Part, str] = {
    "case": "cases",
    "user": "user models",
    "case × user": "case × user model",
    "attempt": "agent's own attempts",
    "judge": "judges",
    "judgement": "single judgements",
}


def spread(summary: Summary, surface: Surface) -> Iterator[Section]:
    """Yield the section that says where the spread comes from, if several models played the users.

    Args:
        summary: The summary.
        surface: Where it is shown; a page has all metrics, other places what the report begins with.
    """
    found = summary.spread
    if not found:
        return
    first = next((name for name in ("pass_rate", "composite") if name in found), next(iter(found)))
    one = found[first]
    names = [first, *(name for name in found if name != first)] if surface == "page" else [first]
    blocks: list[Block] = [_table(found[name]) for name in names]
    yield Section(
        title="where the spread comes from",
        beside=f"{counted(one.cases, 'case')} with {listed([one_line(user) for user in one.users])}",
        blocks=[Paragraph((_sentence(one),)), *blocks],
        key="spread",
    )


def _sentence(one: Spread) -> str:
    """What a single attempt's score owes to what, the largest part first."""
    known = sorted((part for part in one.parts if part.share), key=lambda part: -(part.share or 0))
    total = sqrt(sum(part.variance or 0 for part in one.parts))
    told = listed([f"{SOURCES[part.part]} {share(part.share or 0)}" for part in known])
    name = wording.words(one.metric)
    return f"The {name} of single attempts has a standard deviation of {number(total)}. From: {told}."


def _table(one: Spread) -> Table:
    columns: list[Column[SpreadPart]] = [
        Column("from", lambda part: SOURCES[part.part], "name"),
        Column("share", _share),
        Column("interval", lambda part: _shares(part.share_ci95), "interval"),
        Column("deviation", lambda part: number(None if part.variance is None else sqrt(part.variance))),
    ]
    reasons: dict[str, list[str]] = {}
    for part in one.parts:
        if part.reason is not None:
            reasons.setdefault(part.reason, []).append(SOURCES[part.part])
    notes = [f"{listed(names)}: {reason}" for reason, names in reasons.items()]
    return table(columns, one.parts, label=f"Spread of {wording.words(one.metric)}", notes=notes)


def _share(part: SpreadPart) -> Toned:
    return Toned("not measured", "quiet") if part.share is None else Toned(share(part.share), "strong")


def _shares(ends: tuple[float, float] | None) -> str:
    return wording.NOTHING if ends is None else f"{share(ends[0])} to {share(ends[1])}"
