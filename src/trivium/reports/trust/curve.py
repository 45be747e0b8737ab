"""A risk–coverage curve of Python as blocks, with a drawing, for notebooks."""

from collections.abc import Iterator

from trivium.reports.document.blocks import Block, Drawing, Paragraph, Picture, Title, table_of
from trivium.reports.trust.charts import DrawnLine, risk_chart
from trivium.reports.wording import number, share
from trivium.trust.selective.curve import Curve, augrc, aurc, risk_at

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
    step = -(-curve.coverage.size // MOST_POINTS)
    chosen = [*range(0, curve.coverage.size - 1, step), curve.coverage.size - 1]
    coverage, risk = (of[chosen].tolist() for of in (curve.coverage, curve.selective_risk))
    drawn = risk_chart([DrawnLine("measured", coverage, risk, end=curve.cmax)], loss="the loss")
    yield Drawing((Picture(drawn.svg),))
    yield table_of(("coverage", "reached", "risk"), (), rows)
