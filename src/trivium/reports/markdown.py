"""Renders the summary of a run as Markdown for a comment in a code review (GitHub, GitLab)."""

from collections.abc import Mapping

from trivium.reports import wording
from trivium.reports.document.markdown import ANSWER_MARKS, code, prose
from trivium.reports.wording import dollars, requests, spent_sentence
from trivium.runs.summary import Figure, HumanFigure, JudgeCosts, Summary

FAILURES_SHOWN = 20
METRICS_SHOWN = 100
RESERVATIONS_SHOWN = 12


def render_markdown(summary: Summary) -> str:
    """The summary as GitHub-flavoured Markdown; untrusted text is escaped.

    The answer comes first, then the attempts that did not pass (folded) and the numbers. Reservations are
    folded, too.
    """
    blocks = [f"### Trivium · {code(summary.suite)}"]
    blocks += [_gates(summary)] if summary.gates else []
    blocks += [_answer(summary)]
    blocks += [_failures(summary)] if summary.failures else []
    shown = wording.measured_metrics(summary)
    blocks += [_metrics(summary, shown)] if shown else []
    blocks += [rest] if (rest := wording.counted_without(summary)) else []
    blocks += [_beside_people(summary.human_ceiling)] if summary.human_ceiling else []
    blocks += [f"**Agent** {prose(wording.agent_line(summary.agent))}"] if summary.agent is not None else []
    blocks += [_spent(summary.spent)] if summary.spent is not None else []
    blocks += [_acceptance(summary)] if summary.acceptance else []
    blocks += [_reservations(summary)] if summary.warnings else []
    origin = " · ".join(part for part in (wording.provenance_line(summary), f"run {summary.run}") if part)
    blocks += [f"<sub>{prose(origin)}</sub>"]
    return "\n\n".join(blocks) + "\n"


def _answer(summary: Summary) -> str:
    rate, figure = summary.pass_rate, summary.composite
    value = f"**Pass rate {wording.number(rate.value)}** {prose(wording.interval(rate.ci95))}"
    lines = [f"{value} ({prose(wording.passed_of(summary))})"]
    if figure is not None:
        ends = wording.shown_interval(figure)
        between = f"{prose(wording.interval(ends))} " if ends is not None else ""
        lines.append(
            f"**Composite {wording.number(figure.mean)}** {between}"
            f"({prose(wording.composite_sentence(figure))})"
        )
    lines.append(prose(wording.headline(summary)))
    lines += [
        f"{code(name)} {wording.number(mean)} (judged)"
        for name, mean in wording.further_dimensions(summary).items()
    ]
    return "  \n".join(lines)


def _gates(summary: Summary) -> str:
    rows = [
        f"| {ANSWER_MARKS.get(gate.answer, '❔')} {prose(gate.answer, at_most=40)} | {code(gate.gate)} "
        f"| {prose(wording.gate_sentence(gate))} |"
        for gate in summary.gates
    ]
    return "\n".join(["| gate | limit | value |", "|:--|:--|:--|", *rows])


def _metrics(summary: Summary, shown: Mapping[str, Figure]) -> str:
    rows = []
    for name, figure in shown.items():
        ends = wording.interval(wording.shown_interval(figure))
        cells = [prose(ends), wording.values_of(figure), prose(wording.measured(figure))]
        cells = [code(name), wording.number(figure.mean), *cells, prose(wording.lacking(figure))]
        rows.append(f"| {' | '.join(cells)} |")
    head = f"| metric | score | {wording.interval_heading(summary)} | n | measured | status |"
    more = f"\n\n… and {len(rows) - METRICS_SHOWN:,} more" if len(rows) > METRICS_SHOWN else ""
    return "\n".join([head, "|:--|--:|:--|--:|:--|:--|", *rows[:METRICS_SHOWN]]) + more


def _reservations(summary: Summary) -> str:
    title = wording.counted(len(summary.warnings), "reservation")
    lines = [f"- {prose(line)}" for line in summary.warnings[:RESERVATIONS_SHOWN]]
    if (more := len(summary.warnings) - RESERVATIONS_SHOWN) > 0:
        lines.append(f"- … and {more:,} more")
    if note := wording.interval_note(summary):
        lines.append(f"- {prose(note)}")
    return "\n".join([f"<details><summary>⚠️ {title}</summary>", "", *lines, "", "</details>"])


def _beside_people(ceiling: Mapping[str, HumanFigure]) -> str:
    rows = [
        f"| {code(name)} | {wording.number(figure.run_mean)} | {prose(wording.interval(figure.run_ci95))} "
        f"| {wording.number(figure.mean)} | {prose(wording.interval(figure.ci95))} | {figure.n:,} |"
        for name, figure in ceiling.items()
    ]
    head = "| metric | run | interval | human | interval | n |"
    note = f"Compared with people: {prose(wording.BESIDE_PEOPLE)}"
    return "\n".join([note, "", head, "|:--|--:|:--|--:|:--|--:|", *rows])


def _spent(spent: JudgeCosts) -> str:
    lines = [f"**Judges** {prose(spent_sentence(spent))}"]
    if len(spent.models) > 1:
        lines += [
            f"- {code(name)} {prose(dollars(costs.cost_usd))}, {requests(costs)}"
            for name, costs in spent.models.items()
        ]
    return "\n".join(lines)


def _acceptance(summary: Summary) -> str:
    lines = [f"**Certificates** {prose(wording.accepted_of(summary))}"]
    lines += [f"- {prose(wording.acceptance_sentence(*each))}" for each in summary.acceptance.items()]
    return "\n".join(lines)


def _failures(summary: Summary) -> str:
    shown = summary.failures[:FAILURES_SHOWN]
    total = len(summary.failures) + summary.failures_left_out
    rows = [
        f"- {code(wording.attempt_name(failure.case, failure.repeat))} {code(failure.why)}"
        for failure in shown
    ]
    title = f"{total:,} did not pass" + (f"; the worst {len(shown):,}:" if len(shown) < total else "")
    return "\n".join([f"<details><summary>{title}</summary>", "", *rows, "", "</details>"])
