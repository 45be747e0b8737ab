"""The forest plot, read back as XML."""

import re
from xml.etree import ElementTree

import pytest

from tests.reports import comparison_samples as samples
from trivium.errors import InputError, MissingExtra
from trivium.reports.comparison import rows, write_chart
from trivium.reports.forest import forest

SVG = "{http://www.w3.org/2000/svg}"


def plot(comparison):
    return forest(rows(comparison), comparison.margin)


def drawn(comparison):
    return ElementTree.fromstring(plot(comparison))


def texts(root):
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]


def test_dots_and_lines_stand_where_their_values_do():
    root = drawn(samples.comparison())
    dots = [float(each.get("cx")) for each in root.iter(f"{SVG}circle")]
    ticks = {
        "".join(each.itertext()): float(each.get("x"))
        for each in root.iter(f"{SVG}text")
        if re.fullmatch(r"[−+]?[0-9.]+", "".join(each.itertext()))
    }
    scale = (ticks["+0.05"] - ticks["0"]) / 0.05
    assert dots == pytest.approx([ticks["0"] + scale * value for value in (-0.01, 0.1, -0.09, 0.0)], abs=0.2)
    ends = [
        (float(each.get("x1")), float(each.get("x2")))
        for each in root.iter(f"{SVG}line")
        if each.get("y1") == each.get("y2")
    ]
    assert ends[0] == pytest.approx((ticks["0"] - 0.06 * scale, ticks["0"] + 0.04 * scale), abs=0.2)
    assert len(ends) == 4


def test_everything_lies_inside_the_picture():
    root = drawn(samples.comparison(margin=0.5))
    width = float(root.get("width"))
    for each in root.iter():
        for name in ("x", "x1", "x2", "cx"):
            assert 0 <= float(each.get(name, "0")) <= width


def test_the_plot_says_what_it_shows():
    root = drawn(samples.comparison())
    assert "difference, head − base; dashed: the margin, −0.02" in texts(root)
    title = root.find(f"{SVG}title").text
    assert "coordination_quality −0.090 [−0.120, −0.060] fail" in title


def test_a_figure_without_interval_is_a_dot_and_one_without_pairs_its_name():
    metrics = {"a": samples.delta(0.1, None), "b": samples.delta(None, None)}
    root = drawn(samples.comparison(metrics=metrics, decided_by=("a",), margin=0.0))
    assert len(list(root.iter(f"{SVG}circle"))) == 1
    assert {"a", "b"} <= set(texts(root))


def test_names_of_strangers_are_escaped():
    assert "<script" not in plot(samples.hostile())


def test_a_chart_of_its_own_has_plain_colours_and_no_variables(tmp_path):
    write_chart(tmp_path / "a.svg", samples.comparison())
    svg = (tmp_path / "a.svg").read_text()
    assert "var(" not in svg
    assert ElementTree.fromstring(svg).tag == f"{SVG}svg"


def test_a_png_is_twice_as_fine(tmp_path):
    write_chart(tmp_path / "a.png", samples.comparison())
    data = (tmp_path / "a.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    width = int.from_bytes(data[16:20])
    assert width == 2 * float(drawn(samples.comparison()).get("width"))


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"a chart is written as \.svg or \.png"):
        write_chart(tmp_path / "a.gif", samples.comparison())


def test_a_png_without_the_extra_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    with pytest.raises(MissingExtra, match="report"):
        write_chart(tmp_path / "a.png", samples.comparison())
