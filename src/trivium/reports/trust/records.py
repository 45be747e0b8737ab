"""Curves, agreement, calibrators and certificates of Python as blocks, for notebooks."""

from collections.abc import Iterator

from trivium.reports.document.blocks import (
    Answer,
    Block,
    Drawing,
    Paragraph,
    Picture,
    Remarks,
    Title,
    table_of,
)
from trivium.reports.document.html import BLUE, FAINT
from trivium.reports.drawings.svg import element, picture, text
from trivium.reports.trust.tables import MEASURES, NAMES, WHEN
from trivium.reports.wording import condition_sentence, counted, interval, number, share
from trivium.trust.calibration.calibrator import Calibrator
from trivium.trust.certification import Certificate
from trivium.trust.rater_agreement import Agreement
from trivium.trust.selective.curve import Curve, augrc, aurc, risk_at

WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM, TOP = 520, 220, 46, 24, 34, 10
"""Of the drawing and of what surrounds its axes, in pixels."""
MOST_POINTS = 600
COVERAGES = (0.25, 0.5, 0.75, 1.0)


def describe_curve(curve: Curve) -> Iterator[Block]:
    """Its areas, the curve drawn, and the risk at a few coverages."""
    if not curve.coverage.size:
        yield Title(text="risk and coverage")
        yield Paragraph(("no item is predicted",))
        return
    rows = [
        (share(requested), share(point.achieved), number(point.value))
        for requested in COVERAGES
        if (point := risk_at(curve, requested)) is not None
    ]
    areas = f"AURC {number(aurc(curve))}, AUGRC {number(augrc(curve))} over coverages to {share(curve.cmax)}"
    predicted = f"{curve.n_items:,} items, {share(curve.cmax)} predicted"
    yield Title(text="risk and coverage", beside=predicted)
    yield Paragraph((areas,))
    yield Drawing((Picture(_curve_svg(curve)),))
    yield table_of(("coverage", "reached", "risk"), (), rows)


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


def describe_agreement(agreement: Agreement) -> Iterator[Block]:
    """All measures with intervals, or the reason why there is none."""
    rows = []
    for name, figure in agreement.figures.items():
        ends = None if figure.interval is None else (figure.interval.low, figure.interval.high)
        words = interval(ends) if ends is not None else figure.reason or interval(None)
        rows.append((NAMES.get(name, name), number(figure.value), words))
    items = f"{counted(agreement.n, 'item')} in {counted(agreement.groups, 'group')}"
    yield Title(text="agreement", beside=items)
    yield table_of(("measure", "value", "interval"), ("name", "number", "interval"), rows)


def describe_calibrator(calibrator: Calibrator) -> Iterator[Block]:
    """The method, its features, and the quality of the calibrator."""
    on = ", ".join(calibrator.features) or calibrator.confidence or "one confidence"
    qualities = {
        words: figures
        for key, words in WHEN.items()
        if isinstance(figures := calibrator.metrics.get(key), dict)
    }
    shown = [name for name in MEASURES if any(name in figures for figures in qualities.values())]
    rows = [(words, *(number(each.get(name)) for name in shown)) for words, each in qualities.items()]
    method = calibrator.training_metadata.get("method", calibrator.method)  # as it was asked for
    target = f"target {calibrator.target}" if calibrator.target else ""
    yield Title(text=f"{method} on {on}", beside=target)
    if rows:
        yield table_of(("", *(MEASURES[name] for name in shown)), ("text",), rows)
    yield Remarks(tuple(calibrator.warnings))


def describe_certificate(certificate: Certificate) -> Iterator[Block]:
    """The confidence from which verdicts are accepted, or why none can be certified."""
    covered = f"coverage {share(certificate.coverage)}, error bound {number(certificate.error_bound)}"
    yield Title(text="certificate", beside=covered)
    guarantee = f"at most {share(certificate.epsilon)} wrong, with probability {1 - certificate.delta:g}"
    if certificate.threshold is None:
        sentence = f"Nothing can be certified ({guarantee}): {certificate.reason}"
        yield Answer(answer="inconclusive", sentence=sentence, grounds=())
    else:
        verdicts = counted(certificate.n, "labelled verdict")
        accepted = f"{certificate.n_accepted:,} of {verdicts}, {certificate.errors:,} wrong."
        accepted += condition_sentence(certificate)
        sentence = f"Accept confidence ≥ {certificate.threshold:g} ({guarantee}): {accepted}"
        yield Answer(answer="pass", sentence=sentence, grounds=())
    groups, thresholds = counted(certificate.groups, "group"), counted(certificate.tested, "threshold")
    yield Paragraph((f"{groups}, {thresholds} tested, {certificate.method}",), "quiet")
