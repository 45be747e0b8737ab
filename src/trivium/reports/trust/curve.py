"""A risk–coverage curve of Python as blocks, with a drawing, for notebooks."""

from collections.abc import Iterator

from trivium.reports.document.blocks import Block, Drawing, Paragraph, Picture, Title, table_of
from trivium.reports.document.html import BLUE, FAINT
from trivium.reports.drawings.svg import element, picture, text
from trivium.reports.wording import number, share
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
