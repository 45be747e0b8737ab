"""Where the spread of a run's scores comes from, as blocks."""

from collections.abc import Callable, Iterator
from math import sqrt

from trivium.reports import wording
from trivium.reports.document.blocks import (
    Block,
    Column,
    Fold,
    Paragraph,
    Section,
    Surface,
    Table,
    Toned,
    table,
)
from trivium.reports.wording import number, share
from trivium.runs.comparing.decision import listed
from trivium.runs.spread import Spread, SpreadPart
from trivium.runs.summary import Summary
from trivium.safe_text import one_line
from trivium.trust.crossed_components import PARTS, Part
from trivium.values import counted

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
        surface: Where it is shown; a page has the other metrics, too.
    """
    found = summary.spread
    if not found:
        return
    first = next((name for name in ("pass_rate", "composite") if name in found), next(iter(found)))
    one = found[first]
    blocks: list[Block] = [Paragraph((_sentence(one),)), _table(one)]
    others: list[Spread] = []
    for other in found.values():
        if other.parts not in [each.parts for each in (one, *others)]:
            others.append(other)
    if others and surface == "page":
        blocks.append(Fold(f"Shares in {counted(len(others), 'other metric')}", [_of_metrics(others)]))
    yield Section(
        title="where the spread comes from",
        beside=f"{counted(one.cases, 'case')} with {listed([one_line(user) for user in one.users])}",
        blocks=blocks,
        key="spread",
    )


def _of_metrics(spreads: list[Spread]) -> Table:
    def shared(place: int) -> Callable[[Spread], Toned]:
        return lambda one: _share(one.parts[place])

    columns: list[Column[Spread]] = [Column("metric", lambda one: one_line(one.metric), "name")]
    columns += [Column(SOURCES[part], shared(place)) for place, part in enumerate(PARTS)]
    return table(columns, spreads, label="Shares of the spread by metric")


def _sentence(one: Spread) -> str:
    """What a single attempt's score owes to what, the largest part first."""
    name = wording.words(one.metric)
    known = sorted((part for part in one.parts if part.share), key=lambda part: -(part.share or 0))
    if not known:
        return f"The run does not tell what the spread of its {name} comes from."
    total = sqrt(sum(part.variance or 0 for part in one.parts))
    told = listed([f"{SOURCES[part.part]} {share(part.share or 0)}" for part in known])
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
