import builtins
import re
from xml.etree import ElementTree as ET

import pytest

from trivium.errors import MissingExtra
from trivium.reports import charts

SVG = "{http://www.w3.org/2000/svg}"


def bars(svg, colour):
    return [path for path in ET.fromstring(svg).iter(f"{SVG}path") if path.get("fill", "").startswith(colour)]


def heights(svg):
    """Height of every bar, read from its outline ``M x,y h w v h …``; rounded corners belong to it."""
    found = []
    for path in bars(svg, "var(--bar"):
        ys = [float(y) for y in re.findall(r"[ML]-?[\d.]+,(-?[\d.e-]+)", path.get("d"))]
        found.append(charts.HEIGHT - min(ys))
    return found


def drawn(**changes):
    counts = [0] * 20
    counts[3], counts[4], counts[10] = 2, 8, 4
    fields = {"mean": 0.3, "interval": (0.2, 0.4)}
    return charts.histogram(counts, **(fields | changes))


def test_there_is_a_bar_for_every_bin():
    assert len(bars(drawn(), "var(--bar")) == 20


def test_bars_are_as_high_as_their_counts():
    found = heights(drawn())
    assert found[3] / found[4] == pytest.approx(2 / 8, abs=0.03)
    assert found[10] / found[4] == pytest.approx(4 / 8, abs=0.03)


def test_the_mean_is_drawn_at_its_number():
    lines = {
        line.get("stroke"): float(re.search(r"translate\((-?[\d.]+)", line.get("transform"))[1])
        for line in ET.fromstring(drawn()).iter(f"{SVG}line")
        if line.get("stroke", "").startswith("var(--accent")
    }
    positions = sorted(lines.values())
    assert positions == pytest.approx([0.3 * charts.WIDTH])


def test_what_is_not_known_is_not_drawn():
    assert "--accent" not in drawn(mean=None, interval=None)


def test_an_empty_distribution_is_an_empty_chart():
    assert set(heights(charts.histogram([0] * 20, mean=None, interval=None))) == {0}


def test_every_colour_is_the_pages_own():
    svg = drawn()
    colours = set(re.findall(r'(?:fill|stroke)="([^"]*)"', svg)) - {"none"}
    assert {colour for colour in colours if not colour.startswith("var(--")} <= {"transparent", "#000"}
    assert "style=" not in svg


def test_a_chart_asks_for_nothing_from_outside():
    assert not re.findall(r"href|url\(|src=|@import", drawn())


def test_a_missing_extra_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "altair":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[report\]"'):
        charts.load_altair()
