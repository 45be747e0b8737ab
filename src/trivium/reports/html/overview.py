"""The page of a run: its answer, and the sections below its cases."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from trivium.metrics.evaluation import is_judge_fallback
from trivium.metrics.metric import Score
from trivium.reports import wording
from trivium.reports.disagreements import on_the_page
from trivium.reports.document.blocks import (
    Block,
    Column,
    Drawing,
    Facts,
    Fold,
    Paragraph,
    Picture,
    Range,
    Remarks,
    Section,
    Toned,
    table,
)
from trivium.reports.drawings.histogram import histogram
from trivium.reports.slices import run_slices
from trivium.reports.spread import spread
from trivium.reports.summary import (
    GATES,
    beside_people,
    certificates,
    further_dimensions,
    metrics_table,
    rates,
)
from trivium.reports.wording import number
from trivium.runs.disagreements import Disagreements
from trivium.runs.slices import Slices
from trivium.runs.summary import CompositeFigure, Figure, JudgeCosts, ModelCosts, Summary
from trivium.safe_text import one_line
from trivium.store.records import Provenance
from trivium.values import counted

BINS = 20
RESERVATIONS_SHOWN = 6
"""Reservations that are not folded: the most serious ones."""


class Distributions:
    """How many values of every metric, and of the composite, each of 20 equal bins of [0, 1] holds.

    The last bin includes 1.
    """

    def __init__(self) -> None:
        self.by_name: defaultdict[str, list[int]] = defaultdict(lambda: [0] * BINS)

    def add(self, scores: dict[str, Score], composite: float | None) -> None:
        """Count the values of one attempt."""
        values = {name: score.value for name, score in scores.items() if not is_judge_fallback(score)}
        for name, value in (values | {"composite": composite}).items():
            if value is not None:
                self.by_name[name][min(BINS - 1, max(0, int(value * BINS)))] += 1


def answer(summary: Summary) -> Iterator[Block]:
    """Yield the answer of a run for its page: gates, pass rate, composite, the agent's own figures."""
    if summary.gates:
        yield Section(title="gates", blocks=[table(GATES, summary.gates, label="Gates")], key="gates")
    reservations = len(summary.warnings)
    link = Toned(counted(reservations, "reservation"), "quiet", "#reservations")
    yield rates(summary, details=True, notes=[link] if reservations else [])
    if summary.agent is not None:
        yield Facts((("agent", wording.agent_line(summary.agent)),))


def sections(
    summary: Summary,
    provenance: Provenance | None,
    *,
    drawn: Mapping[str, Sequence[int]] | None = None,
    slices: Sequence[Slices] = (),
    disagreements: Disagreements | None = None,
    times: Section | None = None,
) -> Iterator[Section]:
    """Yield the sections of a run's page below its cases.

    Args:
        summary: The summary.
        provenance: Where the run comes from.
        drawn: Of each metric, how many values each of some equally wide bins of [0, 1] holds.
        slices: Its figures by the values of some keys.
        disagreements: Where its judges disagree.
        times: Where the time went.
    """
    yield Section(title="scores", blocks=list(_scores(summary)), key="scores")
    for place, each in enumerate(slices, 1):
        yield run_slices(each, "page", place=place)
    yield from beside_people(summary)
    yield from spread(summary, "page")
    yield from _distributions(summary, drawn or {})
    if disagreements is not None:
        yield on_the_page(disagreements)
    if times is not None:
        yield times
    yield from certificates(summary)
    if summary.spent is not None:
        yield Section(title="cost of judges", blocks=list(_spent(summary.spent)), key="cost")
    others = (*summary.warnings[RESERVATIONS_SHOWN:], *summary.notes)
    if summary.warnings or others:
        shown: list[Block] = [Remarks(summary.warnings[:RESERVATIONS_SHOWN])]
        shown += [Fold(f"{len(others):,} more", [Remarks(others)])] if others else []
        yield Section(title="reservations", blocks=shown, key="reservations")
    if provenance:
        rows = Facts(tuple(wording.provenance_rows(provenance)), "quiet")
        made = Paragraph(tuple(filter(None, (wording.provenance_line(summary),))), "quiet")
        fold = Fold("Versions, settings and origin of this run", [rows])
        yield Section(title="provenance", blocks=[made, fold], key="provenance")


def _scores(summary: Summary) -> Iterator[Block]:
    shown = wording.measured_metrics(summary)
    if shown:
        note = wording.interval_note(summary) or ""
        yield metrics_table(summary, shown, details=True, notes=(note,))
    else:
        yield Paragraph(("Nothing was scored.",), "quiet")
    if (figure := summary.shown_composite) is not None and figure.parts:
        yield table(PARTS, _parts(summary, figure), label="Parts of the composite")
    if unmeasured := wording.counted_without(summary):
        names = ", ".join(map(one_line, wording.without_anything(summary)))
        yield Fold(unmeasured, [Paragraph((names,), "quiet")])
    yield from further_dimensions(summary)


def _parts(summary: Summary, figure: CompositeFigure) -> Iterator[tuple[str, float | None, Range]]:
    """Name, mean and drawing of each part; one that is also a metric has its interval."""
    for name, mean in figure.parts.items():
        metric = summary.metrics.get(name)
        yield name, mean, Range(mean, None if metric is None else metric.ci95)


def _distributions(summary: Summary, drawn: Mapping[str, Sequence[int]]) -> Iterator[Section]:
    figures: dict[str, Figure | CompositeFigure] = dict(summary.metrics)
    if summary.shown_composite is not None:
        figures["composite"] = summary.shown_composite
    pictures = []
    for name, figure in figures.items():
        counts = drawn.get(name, ())
        if sum(counts) > 1 and any(counts[1:-1]):  # otherwise the mean says it all
            label = f"Attempts in each twentieth of 0 to 1: {', '.join(map(str, counts))}"
            svg = histogram(counts, mean=figure.mean, interval=figure.ci95)
            pictures.append(Picture(svg, label, name, f"n = {sum(counts):,}"))
    if pictures:
        note = Paragraph(("Bars: attempts. Line and band: the mean and its interval.",), "quiet")
        yield Section(title="distributions", blocks=[note, Drawing(tuple(pictures))], key="distributions")


def _spent(spent: JudgeCosts) -> Iterator[Block]:
    yield Paragraph((wording.spent_sentence(spent),))
    rows = [row for row in wording.spent_rows(spent) if row[0] != "model" or len(spent.models) > 1]
    note = "Dimensions judged in one request share its cost equally."
    if rows:
        yield table(SPENT, rows, label="Cost by model and by dimension", notes=(note,))


PARTS: tuple[Column[tuple[str, float | None, Range]], ...] = (
    Column("part of the composite", lambda row: row[0], "name"),
    Column("mean", lambda row: number(row[1])),
    Column("drawn", lambda row: row[2], "range", where="page"),
)

SPENT: tuple[Column[tuple[str, str, ModelCosts]], ...] = (
    Column("by", lambda row: Toned(row[0], "quiet"), "text"),
    Column("name", lambda row: row[1], "name"),
    Column("cost", lambda row: wording.dollars(row[2].cost_usd)),
    Column("requests", lambda row: wording.whole(row[2].requests)),
    Column("answered", lambda row: wording.whole(row[2].answered)),
    Column("from the cache", lambda row: wording.whole(row[2].from_cache)),
    Column("input tokens", lambda row: wording.whole(row[2].input_tokens)),
    Column("output tokens", lambda row: wording.whole(row[2].output_tokens)),
)
