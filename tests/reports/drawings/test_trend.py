"""The pass rates of the last runs, small."""

import xml.etree.ElementTree as ET

from trivium.reports.drawings.trend import EDGE, HEIGHT, WIDTH, trend

NS = "{http://www.w3.org/2000/svg}"


def test_each_run_is_a_dot_at_its_rate_with_a_line_over_its_interval():
    drawing = ET.fromstring(trend(((0.0, None, None), (0.5, 0.25, 0.75), (1.0, 0.5, 1.0)), suite="<a & b>"))
    paths = {each.get("class"): each.get("d") for each in drawing.iter(f"{NS}path")}
    low, middle, high = HEIGHT - EDGE, HEIGHT // 2, EDGE
    assert paths["mean"] == f"M{EDGE} {low}h0M{WIDTH // 2} {middle}h0M{WIDTH - EDGE} {high}h0"
    quarter = (HEIGHT - 2 * EDGE) // 4
    ends = f"M{WIDTH // 2} {low - quarter}V{high + quarter}M{WIDTH - EDGE} {middle}V{high}"
    assert paths["interval"] == ends


def test_it_is_told_in_words():
    title = ET.fromstring(trend(((0.5, 0.25, 0.75), (1.0, None, None)), suite="<a & b>")).findtext(
        f"{NS}title"
    )
    assert title == "Pass rate of the last 2 runs of <a & b>, oldest first: 50 % [25, 75]; 100 %"
