"""The distribution of a score, drawn."""

import re
from xml.etree import ElementTree as ET

import pytest

from trivium.reports.drawings.histogram import WIDTH, histogram

SVG = "{http://www.w3.org/2000/svg}"


def found(svg, tag, colour):
    """The elements of a kind in a colour."""
    whole = ET.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))
    kinds = [each for each in whole.iter(f"{SVG}{tag}") if colour in (each.get("fill") or each.get("stroke"))]
    return [dict(each.items()) | {"text": each.text} for each in kinds]


def heights(svg):
    return [float(bar["height"]) for bar in found(svg, "rect", "--bar")]


def drawn(**changes):
    counts = [0] * 20
    counts[3], counts[4], counts[10] = 2, 8, 4
    fields = {"mean": 0.3, "interval": (0.2, 0.4)}
    return histogram(counts, **(fields | changes))


def test_there_is_a_bar_for_every_bin_as_high_as_its_count():
    bars = heights(drawn())
    assert len(bars) == 20
    assert bars[3] / bars[4] == pytest.approx(2 / 8, abs=0.01)
    assert bars[10] / bars[4] == pytest.approx(4 / 8, abs=0.01)
    assert [each["text"] for each in found(drawn(), "text", "--muted")] == [
        "8", "0", "0.25", "0.5", "0.75", "1",
    ]  # fmt: skip


def test_the_mean_and_its_interval_are_drawn_at_their_numbers():
    (line,) = found(drawn(), "line", "--accent")
    assert [float(line[end]) for end in ("x1", "x2")] == pytest.approx([0.3 * WIDTH] * 2, abs=0.05)
    (band,) = found(drawn(interval=(0.2, 1.4)), "rect", "--accent")
    assert float(band["x"]) == pytest.approx(0.2 * WIDTH, abs=0.05)
    assert float(band["width"]) == pytest.approx(0.8 * WIDTH, abs=0.05)


def test_what_is_not_known_is_not_drawn():
    assert "--accent" not in drawn(mean=None, interval=None)


def test_an_empty_distribution_is_an_empty_chart():
    assert set(heights(histogram([0] * 20, mean=None, interval=None))) == {0}


def test_every_colour_is_the_pages_own():
    svg = drawn()
    assert all(colour.startswith("var(--") for colour in re.findall(r'(?:fill|stroke)="([^"]*)"', svg))
    assert "style=" not in svg


def test_a_chart_asks_for_nothing_from_outside():
    assert not re.findall(r"href|url\(|src=|@import", drawn())
