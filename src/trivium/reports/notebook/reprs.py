"""HTML of runs, summaries, curves, calibrators and certificates in notebooks."""

from collections.abc import Iterator

import msgspec

from trivium.reports import wording
from trivium.reports.drawings.svg import element, picture, text
from trivium.reports.notebook.fragment import (
    BLUE,
    FAINT,
    box,
    heading,
    interval_bar,
    line,
    table,
    verdict,
    warnings,
)
from trivium.reports.trust.tables import MEASURES, NAMES, WHEN
from trivium.reports.wording import condition_sentence, counted, interval, number, share, spent_sentence
from trivium.runs.run import Run
from trivium.runs.summary import Figure, Summary
from trivium.trust.calibration.calibrator import Calibrator
from trivium.trust.certification import Certificate
from trivium.trust.rater_agreement import Agreement
from trivium.trust.selective.curve import Curve, augrc, aurc, risk_at

WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM, TOP = 520, 220, 46, 24, 34, 10
"""Of the drawing and of what surrounds its axes, in pixels."""
MOST_POINTS = 600
COVERAGES = (0.25, 0.5, 0.75, 1.0)


def curve_fragment(curve: Curve) -> str:
    """The curve drawn, its areas, and the risk at a few coverages."""
    if not curve.coverage.size:
        return box(heading("risk and coverage"), line("no item is predicted"))
    rows = [
        (share(requested), share(point.achieved), number(point.value))
        for requested in COVERAGES
        if (point := risk_at(curve, requested)) is not None
    ]
    areas = f"AURC {number(aurc(curve))}, AUGRC {number(augrc(curve))} over coverages to {share(curve.cmax)}"
    return box(
        heading("risk and coverage", f"{curve.n_items:,} items, {share(curve.cmax)} predicted"),
        _curve_svg(curve),
        line(areas),
        table(["coverage", "reached", "risk"], [tuple(map(text, row)) for row in rows], left=0),
    )


def _curve_svg(curve: Curve) -> str:
    top = float(curve.selective_risk.max()) or 1.0
    last = f"{number(float(curve.selective_risk[-1]))} at {share(curve.cmax)}"
    step = -(-curve.coverage.size // MOST_POINTS)
    chosen = [*range(0, curve.coverage.size - 1, step), curve.coverage.size - 1]

    def x(coverage: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * coverage

    def y(risk: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - risk / top)

    points = " ".join(
        f"{x(float(curve.coverage[i])):.1f},{y(float(curve.selective_risk[i])):.1f}" for i in chosen
    )
    ends = [
        element(
            "circle", cx=x(float(curve.coverage[i])), cy=y(float(curve.selective_risk[i])), r=2.5, fill=BLUE
        )
        for i in {chosen[0], chosen[-1]}
    ]
    return picture(
        element("line", x1=x(0), x2=x(1), y1=y(0), y2=y(0), stroke=FAINT),
        element("line", x1=x(0), x2=x(0), y1=y(0), y2=y(top), stroke=FAINT),
        *(_label(share(at), x(at), y(0) + 16, "middle") for at in (0.0, 0.5, 1.0)),
        *(_label(number(risk), x(0) - 5, y(risk) + 4, "end") for risk in (0.0, top)),
        _label("coverage", x(0.5), HEIGHT - 3, "middle"),
        element("polyline", points=points, fill="none", stroke=BLUE, stroke_width=2),
        *ends,
        label=f"Selective risk against coverage: {last}",
        width=WIDTH,
        height=HEIGHT,
        class_="curve",
    )


def _label(words: str, x: float, y: float, anchor: str) -> str:
    return element("text", text(words), x=x, y=y, text_anchor=anchor, font_size=11, fill="currentColor")


def agreement_fragment(agreement: Agreement) -> str:
    """All measures with intervals, or the reason why there is none."""
    rows = []
    for name, figure in agreement.figures.items():
        ends = None if figure.interval is None else (figure.interval.low, figure.interval.high)
        words = interval(ends) if ends is not None else figure.reason or interval(None)
        rows.append((text(NAMES.get(name, name)), number(figure.value), text(words)))
    return box(
        heading("agreement", f"{counted(agreement.n, 'item')} in {counted(agreement.groups, 'group')}"),
        table(["measure", "value", "interval"], rows),
    )


def calibrator_fragment(calibrator: Calibrator) -> str:
    """The method, its features, and the quality of the calibrator."""
    on = ", ".join(calibrator.features) or calibrator.confidence or "one confidence"
    shown = [name for name in MEASURES if any(name in (figures or {}) for figures in _qualities(calibrator))]
    rows = [
        (text(words), *(number(figures.get(name)) for name in shown))
        for key, words in WHEN.items()
        if isinstance(figures := calibrator.metrics.get(key), dict)
    ]
    method = calibrator.training_metadata.get("method", calibrator.method)  # as it was asked for
    return box(
        heading(f"{method} on {on}", f"target {calibrator.target}" if calibrator.target else ""),
        warnings(calibrator.warnings),
        table(["", *(MEASURES[name] for name in shown)], rows) if rows else "",
    )


def certificate_fragment(certificate: Certificate) -> str:
    """The confidence from which verdicts are accepted, or why none can be certified."""
    guarantee = f"at most {share(certificate.epsilon)} wrong, with probability {1 - certificate.delta:g}"
    if certificate.threshold is None:
        body = verdict("inconclusive", f"Nothing can be certified ({guarantee}): {certificate.reason}")
    else:
        verdicts = counted(certificate.n, "labelled verdict")
        accepted = f"{certificate.n_accepted:,} of {verdicts}, {certificate.errors:,} wrong."
        accepted += condition_sentence(certificate)
        body = verdict("pass", f"Accept confidence ≥ {certificate.threshold:g} ({guarantee}): {accepted}")
    groups, thresholds = counted(certificate.groups, "group"), counted(certificate.tested, "threshold")
    tested = f"{groups}, {thresholds} tested, {certificate.method}"
    covered = f"coverage {share(certificate.coverage)}, error bound {number(certificate.error_bound)}"
    return box(heading("certificate", covered), body, line(tested, quiet=True))


def _qualities(calibrator: Calibrator) -> list[dict[str, float]]:
    return [figures for key in WHEN if isinstance(figures := calibrator.metrics.get(key), dict)]


FAILURES_SHOWN = 8
RESERVATIONS_SHOWN = 4


def run_fragment(run: Run) -> str:
    """The run: its agent, its state, and its stored summary, or a summary of the attempts so far."""
    record = run.record
    summary = msgspec.convert(record.summary, Summary) if record.summary is not None else run.summary()
    return box(*_summary_parts(summary), line(record.state, quiet=True))


def summary_fragment(summary: Summary) -> str:
    """The summary as a table with its intervals drawn."""
    return box(*_summary_parts(summary))


def _summary_parts(summary: Summary) -> Iterator[str]:
    yield heading(summary.suite, summary.run)
    yield line(wording.headline(summary))
    yield from (verdict(gate.answer, f"{gate.gate}: {wording.gate_sentence(gate)}") for gate in summary.gates)
    rate = summary.pass_rate
    value = f"pass rate {wording.number(rate.value)} {wording.interval(rate.ci95)}"
    yield line(f"{value}: {wording.passed_of(summary)}")
    if (composite := summary.composite) is not None:
        yield line(f"composite {wording.number(composite.mean)}: {wording.composite_sentence(composite)}")
    if summary.failures:
        yield from _failure_parts(summary)
    if shown := wording.measured_metrics(summary):
        heads = ["metric", "score", "0 … 1", wording.interval_heading(summary), "n", "measured", "status"]
        yield table(heads, [_summary_row(name, figure) for name, figure in shown.items()])
    if rest := wording.counted_without(summary):
        yield line(rest, quiet=True)
    if summary.agent is not None:
        yield line(f"agent: {wording.agent_line(summary.agent)}")
    if summary.spent is not None:
        yield line(f"judges: {spent_sentence(summary.spent)}")
    if summary.acceptance:
        yield line(wording.accepted_of(summary))
    yield _reservations(summary)
    if origin := wording.provenance_line(summary):
        yield line(origin, quiet=True)


def _failure_parts(summary: Summary) -> Iterator[str]:
    total = len(summary.failures) + summary.failures_left_out
    yield line(f"did not pass ({min(FAILURES_SHOWN, total):,} of {total:,}, worst first)")
    shown = [
        (text(wording.attempt_name(each.case, each.repeat), at_most=60), text(each.why, at_most=160))
        for each in summary.failures[:FAILURES_SHOWN]
    ]
    yield table(["attempt", "why"], shown, left=2)


def _reservations(summary: Summary) -> str:
    """The first reservations, and the others with the methods of the intervals in a fold."""
    note = wording.interval_note(summary)
    rest = [*summary.warnings[RESERVATIONS_SHOWN:], *summary.notes, *([note] if note else [])]
    folded = element("details", element("summary", "more"), *map(line, rest)) if rest else ""
    return warnings(summary.warnings[:RESERVATIONS_SHOWN]) + folded


def _summary_row(name: str, figure: Figure) -> list[str]:
    ends = wording.shown_interval(figure)
    cells = (
        wording.interval(ends),
        wording.values_of(figure),
        wording.measured(figure),
        wording.lacking(figure),
    )
    return [text(name), wording.number(figure.mean), interval_bar(figure.mean, ends), *map(text, cells)]
