"""The report of a run in blocks.

The order is that of all reports: the answer, what failed, the numbers, the reservations that change how to
read them, and where the run comes from.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from trivium.reports import wording
from trivium.reports.document.blocks import (
    Block,
    Column,
    Facts,
    Fold,
    KeyFigure,
    KeyFigures,
    Mark,
    Paragraph,
    Range,
    Remarks,
    Section,
    Surface,
    Table,
    Title,
    Tone,
    Toned,
    table,
)
from trivium.reports.document.markdown import markdown
from trivium.reports.spread import spread
from trivium.reports.wording import interval, number
from trivium.runs.run import Run
from trivium.runs.summary import Failure, Figure, GateAnswer, HumanFigure, Summary, summary_of
from trivium.safe_text import one_line
from trivium.store.records import Provenance
from trivium.values import counted

FAILURES: dict[Surface, int] = {"terminal": 5, "comment": 20, "notebook": 8}
"""Attempts listed that did not pass."""
RESERVATIONS: dict[Surface, int] = {"terminal": 4, "comment": 12, "notebook": 4}
"""Reservations that are shown; a notebook folds the others."""
METRICS = 100
"""Metrics in a comment, which may not become too long."""

_RECOMMENDATIONS: dict[str | None, Tone] = {
    "accept": "good",
    "weak_accept": "good",
    "weak_reject": "warn",
    "reject": "bad",
}


def describe(
    summary: Summary,
    surface: Surface,
    *,
    details: bool = False,
    provenance: Provenance | None = None,
    then: Sequence[str] = (),
) -> Iterator[Block]:
    """Yield the blocks of a run's report for a terminal, a comment or a notebook.

    Args:
        summary: The summary.
        surface: Where it is shown.
        details: Whether to show every reservation in full, the remarks, how intervals were computed, and the
            provenance; otherwise the first few reservations.
        provenance: The run's provenance, for the details.
        then: Commands that come next in a terminal, before those that show more.
    """
    yield Title(text=summary.suite, beside=wording.called(summary.run, summary.metadata.get("version")))
    lacking = summary.missing or any(summary.errors.values())
    yield Paragraph((wording.headline(summary),), "bad" if lacking else "")
    if summary.gates:
        yield table(GATES, summary.gates, label="Gates")
    found = rates(summary, details=details)
    yield found if found.figures else Paragraph((wording.NO_VERDICT,), "quiet")
    if summary.failures:
        yield _failures(summary, FAILURES[surface])
    yield from _numbers(summary, surface, details=details)
    yield from _reservations(summary, surface, details=details)
    if details and provenance:
        yield Section(title="provenance", blocks=[Facts(tuple(wording.provenance_rows(provenance)), "quiet")])
        return
    run = f"run {summary.run}" if surface == "comment" else ""
    lines = [" · ".join(filter(None, (wording.provenance_line(summary), run)))]
    if surface == "terminal" and not details:
        lines.append(f"next: {', '.join([*then, f'trivium view {summary.run}'])}, or trivium show --details")
    yield Paragraph(tuple(filter(None, lines)), "quiet")


def describe_run(run: Run, surface: Surface) -> Iterator[Block]:
    """Yield the blocks of a run: its stored summary, or one of the attempts so far, and its state."""
    yield from describe(summary_of(run.record) or run.summary(), surface)
    yield Paragraph((run.record.state,), "quiet")


def render_markdown(summary: Summary) -> str:
    """The summary as GitHub-flavoured Markdown; untrusted text is escaped."""
    return markdown(describe(summary, "comment"))


GATES: tuple[Column[GateAnswer], ...] = (
    Column("gate", lambda gate: Mark(gate.answer, gate.answer, brief=False), "mark"),
    Column("limit", lambda gate: gate.gate, "name", brief=" "),
    Column("value", wording.gate_sentence, "text", brief=" "),
)


def rates(summary: Summary, *, details: bool = False, notes: Iterable[Toned] = ()) -> KeyFigures:
    """Pass rate, and the composite with its recommendation; neither where no attempt has any.

    Args:
        summary: The summary.
        details: Whether to say how many attempts have each recommendation, and what has no composite.
        notes: What is to be known besides the pass rate.
    """
    rate, figure = summary.pass_rate, summary.shown_composite
    notes = tuple(notes)
    found = []
    if notes or wording.has_verdicts(summary):
        found.append(
            KeyFigure(
                name="pass rate",
                value=number(rate.value),
                interval=interval(rate.ci95),
                range=Range(rate.value, rate.ci95),
                sentence=Toned(wording.passed_of(summary)),
                notes=notes,
            )
        )
    if figure is not None and (figure.mean is not None or figure.why_none or wording.has_verdicts(summary)):
        ends = wording.shown_interval(figure)
        remarks = [wording.weight_scored(figure)]
        if details:
            remarks = [wording.recommended(figure), wording.not_ok(figure.status), *remarks]
        tone = _RECOMMENDATIONS.get(figure.recommendation, "")
        found.append(
            KeyFigure(
                name="composite",
                value=number(figure.mean),
                interval="" if ends is None else interval(ends),
                range=Range(figure.mean, ends),
                sentence=Toned(wording.composite_sentence(figure), tone),
                notes=tuple(Toned(remark, "quiet") for remark in remarks if remark),
            )
        )
    return KeyFigures(tuple(found))


def _failures(summary: Summary, most: int) -> Fold:
    shown = summary.failures[:most]
    total = len(summary.failures) + summary.failures_left_out
    columns: list[Column[Failure]] = [
        Column("", lambda one: wording.attempt_name(one.case, one.repeat), "name"),
        Column("", lambda one: Toned(one_line(one.why, at_most=160), "quiet"), "text"),
    ]
    title = f"did not pass ({len(shown):,} of {total:,}, worst first)"
    return Fold(title, [table(columns, shown, label="Did not pass")])


def _numbers(summary: Summary, surface: Surface, *, details: bool) -> Iterator[Block]:
    """Metrics of which there is anything, the agent's own figures, and the costs of the judges."""
    shown = summary.metrics if details else wording.measured_metrics(summary)
    rest = "" if details else wording.counted_without(summary)
    if rest and surface == "terminal":
        rest += " (--details)"
    if shown:
        most = METRICS if surface == "comment" else len(shown)
        more = f"… and {len(shown) - most:,} more" if len(shown) > most else ""
        yield metrics_table(summary, dict(list(shown.items())[:most]), details=details, notes=(more, rest))
    elif rest:
        yield Paragraph((rest,), "quiet")
    yield from further_dimensions(summary)
    yield from beside_people(summary)
    yield from spread(summary, surface)
    yield Facts(tuple(_costs(summary)))
    yield from certificates(summary)


def further_dimensions(summary: Summary) -> Iterator[Paragraph]:
    """Yield the means of what was judged and is no metric, if there are any."""
    if further := wording.further_dimensions(summary):
        yield Paragraph(tuple(f"{name} {number(mean)} (judged)" for name, mean in further.items()))


def beside_people(summary: Summary) -> Iterator[Section]:
    """Yield the section that compares the run with people, if it was."""
    if summary.human_ceiling:
        people = people_table(summary.human_ceiling)
        note = Paragraph((wording.BESIDE_PEOPLE,), "quiet")
        yield Section(title="compared with people", blocks=[note, people], key="people")


def certificates(summary: Summary) -> Iterator[Section]:
    """Yield the section of what certificates accept, if any was used."""
    if summary.acceptance:
        lines = [wording.acceptance_sentence(*each) for each in summary.acceptance.items()]
        certified = Paragraph((wording.accepted_of(summary), *lines))
        yield Section(title="certificates", blocks=[certified], key="certificates")


def _costs(summary: Summary) -> Iterator[tuple[str, str]]:
    """The agent's own figures, and what its judges cost."""
    if summary.agent is not None:
        yield "agent", wording.agent_line(summary.agent)
    if (spent := summary.spent) is not None:
        yield "judges", wording.spent_sentence(spent)
        if len(spent.models) > 1:
            for name, costs in spent.models.items():
                yield name, f"{wording.dollars(costs.cost_usd)}, {wording.requests(costs)}"


def metrics_table(
    summary: Summary, shown: Mapping[str, Figure], *, details: bool = False, notes: Iterable[str] = ()
) -> Table:
    """The table of a run's metrics.

    Args:
        summary: The summary.
        shown: The metrics to show.
        details: Whether a terminal shows the statuses in any case, not only unusual ones.
        notes: Lines below the table.
    """
    usual = not details and not any(map(_unusual, shown.values()))
    columns: list[Column[tuple[str, Figure]]] = [
        Column("metric", _metric, "name"),
        Column("tier", lambda row: row[1].tier or "", "text", where="page"),
        Column("score", lambda row: Toned(number(row[1].mean), "strong" if row[1].n else "quiet")),
        Column(wording.interval_heading(summary), _interval, "interval", optional=True),
        Column("0 … 1", _range, "range", where="wide", optional=True),
        Column("n", _values),
        Column("coverage", _coverage, where="page"),
        Column("measured", lambda row: wording.measured(row[1]), "text", optional=True),
        Column("status", _status, "text", where="wide" if usual else "always", optional=True),
        Column("if missing scored 0 … 1", _bounds, "interval", where="page", optional=True),
    ]
    return table(columns, shown.items(), label="Scores", notes=notes)


def _metric(row: tuple[str, Figure]) -> Toned:
    return Toned(row[0], "" if wording.has_something(row[1]) else "quiet")


def _interval(row: tuple[str, Figure]) -> str:
    return interval(wording.shown_interval(row[1]))


def _range(row: tuple[str, Figure]) -> Range:
    return Range(row[1].mean, wording.shown_interval(row[1]))


def _values(row: tuple[str, Figure]) -> Toned:
    counts = wording.values_of(row[1])
    return Toned(counts, "warn" if "/" in counts else "")


def _coverage(row: tuple[str, Figure]) -> Toned | str:
    figure = row[1]
    if wording.is_reported_only(figure):
        return wording.NOTHING
    return Toned(wording.share(figure.coverage), "" if figure.coverage == 1 else "warn")


def _status(row: tuple[str, Figure]) -> Toned:
    return Toned(wording.lacking(row[1]), "bad" if row[1].status.get("error") else "warn")


def _bounds(row: tuple[str, Figure]) -> str:
    figure = row[1]
    if wording.is_reported_only(figure) or figure.coverage == 1 or figure.bounds is None:
        return ""
    return interval(figure.bounds)


def _unusual(figure: Figure) -> bool:
    """Whether scores failed, are fallbacks or were refused; how many are there at all is next to ``n``."""
    return figure.aside is not None or any(
        count for status, count in figure.status.items() if status not in {"ok", "skipped"}
    )


def people_table(ceiling: Mapping[str, HumanFigure]) -> Table:
    """The table that compares a run with people."""
    columns: list[Column[tuple[str, HumanFigure]]] = [
        Column("metric", lambda row: row[0], "name"),
        Column("run", lambda row: Toned(number(row[1].run_mean), "strong")),
        Column("interval", lambda row: interval(row[1].run_ci95), "interval"),
        Column(
            "0 … 1", lambda row: Range(row[1].run_mean, row[1].run_ci95, row[1].mean), "range", where="page"
        ),
        Column("human", lambda row: number(row[1].mean)),
        Column("interval", lambda row: interval(row[1].ci95), "interval"),
        Column("n", lambda row: f"{row[1].n:,}"),
    ]
    return table(columns, ceiling.items(), label="Compared with people")


def _reservations(summary: Summary, surface: Surface, *, details: bool) -> Iterator[Block]:
    """What changes how to read the numbers."""
    note = wording.interval_note(summary) or ""
    if details:
        names = ", ".join(wording.without_anything(summary))
        remarks = [*summary.notes, f"nothing to measure here: {names}" if names else "", note]
        yield Remarks(summary.warnings)
        yield Paragraph(tuple(f"· {line}" for line in remarks if line), "quiet")
        return
    most = RESERVATIONS[surface]
    shown, others = summary.warnings[:most], summary.warnings[most:]
    if surface == "terminal":
        more = f"{counted(len(others), 'more reservation')} (--details)" if others else ""
        yield Remarks(shown, more=more, brief=True)
    elif surface == "comment":
        if summary.warnings:
            more = f"… and {len(others):,} more" if others else ""
            lines = tuple(filter(None, (more, note)))
            yield Fold(counted(len(summary.warnings), "reservation"), [Remarks(shown), Paragraph(lines)])
    else:
        yield Remarks(shown)
        if rest := tuple(filter(None, (*others, *summary.notes, note))):
            yield Fold("more", [Paragraph(rest)])
