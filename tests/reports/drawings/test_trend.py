"""The pass rates of the last runs, small."""

import xml.etree.ElementTree as ET

from trivium.reports.drawings.trend import EDGE, HEIGHT, WIDTH, trend

NS = "{http://www.w3.org/2000/svg}"


def test_each_run_is_a_dot_at_its_rate_with_a_line_over_its_interval():
    drawing = ET.fromstring(trend([(0.0, None, None), (0.5, 0.25, 0.75), (1.0, 0.5, 1.0)], suite="<a & b>"))
    tall = HEIGHT - 2 * EDGE
    dots = [(float(each.get("cx")), float(each.get("cy"))) for each in drawing.iter(f"{NS}circle")]
    assert dots == [(EDGE, EDGE + tall), (WIDTH / 2, EDGE + tall / 2), (WIDTH - EDGE, EDGE)]
    lines = [each for each in drawing.iter(f"{NS}line") if each.get("class") == "interval"]
    ends = [tuple(float(each.get(name)) for name in ("x1", "y1", "y2")) for each in lines]
    assert ends == [
        (WIDTH / 2, EDGE + 0.75 * tall, EDGE + 0.25 * tall), (WIDTH - EDGE, EDGE + tall / 2, EDGE),
    ]  # fmt: skip


def test_it_is_told_in_words():
    title = ET.fromstring(trend([(0.5, 0.25, 0.75), (1.0, None, None)], suite="<a & b>")).findtext(
        f"{NS}title"
    )
    assert title == "Pass rate of the last 2 runs of <a & b>, oldest first: 50 % [25, 75]; 100 %"
