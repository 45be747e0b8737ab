"""Tables, charts and the page of a risk-coverage artifact, held against the artifact they show."""

import re
from html import unescape
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest

from trivium.display import as_text
from trivium.errors import InputError
from trivium.reports.document.terminal import Printed
from trivium.reports.drawings.svg import write_picture
from trivium.reports.trust.charts import draw_curves
from trivium.reports.trust.page import curve_page
from trivium.reports.trust.tables import curve_blocks
from trivium.runs.artifacts.curve import CurveArtifact, CurveOptions, curve_artifact
from trivium.runs.items.records import Item
from trivium.runs.items.table import ItemTable, Origin, TableBuilder
from trivium.trust.cluster_bootstrap import BootstrapOptions


def table(*, abstain: float, name: str = "a.jsonl", seed: int = 4, steps: int = 100) -> ItemTable:
    draw = np.random.default_rng(seed)
    builder = TableBuilder(Origin(path=name), word="line", scale=(0.0, 1.0))
    for group in range(30):
        for place in range(3):
            sure = float(round(draw.random() * steps) / steps)
            builder.add(
                Item(
                    group=str(group),
                    item=f"i{place}",
                    pred=None if sure < abstain else float(draw.random() < sure),
                    gt=1.0,
                    confidence=sure,
                ),
                group,
            )
    return builder.table()


def artifact(*tables: ItemTable) -> CurveArtifact:
    return curve_artifact(
        tables, CurveOptions(plan=BootstrapOptions(resamples=300), drawn=True, created_at="now")
    )


def words(svg: bytes | str) -> str:
    root = ElementTree.fromstring(svg)
    return " ".join(text for node in root.iter() if (text := (node.text or "").strip()))


@pytest.fixture(scope="module")
def one() -> CurveArtifact:
    return artifact(table(abstain=0.2))


@pytest.fixture(scope="module")
def two() -> CurveArtifact:
    return artifact(table(abstain=0.5), table(abstain=0.1, name="b.jsonl"))


@pytest.fixture(scope="module")
def drawn(one) -> str:
    return draw_curves(one)


@pytest.fixture(scope="module")
def drawn_two(two) -> str:
    return draw_curves(two)


def test_a_chart_names_its_axes_its_lines_and_where_answers_end(drawn):
    shown = words(drawn)
    for piece in (
        "coverage",
        "risk: mean loss",
        "measured",
        "best ranking possible",
        "lower hull",
        "abstains beyond",
    ):
        assert piece in shown
    assert "achievable" not in shown
    assert "Is the confidence calibrated?" in shown
    assert "ECE" in shown
    assert "30 groups" in shown
    assert "a: how wrong are the most confident answers?" in shown


def test_a_row_says_by_what_its_answers_are_ranked_where_that_has_a_name(one, drawn_two):
    variants = {"token_msp": one.confidence_variants["confidence"]}
    named = msgspec.structs.replace(one, confidence_variants=variants)
    assert "a: how wrong are the most confident answers by token_msp?" in words(draw_curves(named))
    assert "How wrong are the most confident answers?" in words(drawn_two)


def test_a_count_is_drawn_on_the_side_of_its_dot_without_the_line(one, drawn):
    above, below = {}, {}
    entry = one.confidence_variants["confidence"].reliability
    for stated, right, n in zip(entry.confidence, entry.accuracy, entry.count, strict=True):
        if n:
            (above if right >= stated else below)[n] = (stated, right)
    assert below, "some of these predictions are too sure"
    assert above
    root = ElementTree.fromstring(drawn)
    ends = {
        int(node.text): node.get("text-anchor")
        for node in root.iter("{http://www.w3.org/2000/svg}text")
        if (node.text or "").isdigit() and node.get("font-size") == "11" and int(node.text) in above | below
    }
    assert {ends[n] for n in below.keys() - above.keys()} == {"start"}
    assert {ends[n] for n in above.keys() - below.keys()} == {"middle"}


def test_the_reliability_diagram_counts_all_predictions(one, drawn):
    entry = one.confidence_variants["confidence"]
    shown = words(drawn)
    counts = [count for count in entry.reliability.count if count]
    assert sum(counts) == one.population.items_predicted
    assert all(re.search(rf"\b{count}\b", shown) for count in counts)


def test_the_curve_runs_inside_its_band(one):
    entry = one.confidence_variants["confidence"]
    band = entry.picture.band
    drawn = np.interp(band.coverage, entry.curve.coverage, entry.curve.selective_risk)
    assert (np.array(band.low) <= drawn + 1e-9).all()
    assert (np.array(band.high) >= drawn - 1e-9).all()
    assert len(band.coverage) > 10


def test_the_best_ranking_ends_where_the_curve_ends_and_is_never_worse(one):
    entry = one.confidence_variants["confidence"]
    best, curve = entry.picture.optimal, entry.curve
    assert best.selective_risk[-1] == pytest.approx(curve.selective_risk[-1])
    there = np.interp(curve.coverage, best.coverage, best.selective_risk)
    assert (there <= np.array(curve.selective_risk) + 1e-9).all()


def test_two_inputs_stand_in_one_chart(drawn_two):
    shown = words(drawn_two)
    assert "first: a" in shown
    assert "second: b" in shown
    assert shown.count("abstains beyond") == 2


def test_a_chart_of_nothing_is_still_a_chart():
    empty = artifact(table(abstain=2.0))
    assert "llm" in words(draw_curves(empty))


def test_png_is_png_and_nothing_else_is_drawn(drawn, tmp_path):
    write_picture(tmp_path / "curve.PNG", drawn)
    assert (tmp_path / "curve.PNG").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"\.svg or \.png"):
        write_picture(tmp_path / "curve.gif", drawn)


def test_a_picture_of_its_own_has_colours_without_a_page(drawn, tmp_path):
    write_picture(tmp_path / "curve.svg", drawn)
    assert "var(" not in (tmp_path / "curve.svg").read_text("utf-8")


def test_names_of_strangers_are_text_in_a_chart():
    hostile = artifact(table(abstain=0.2, name="<script>alert(1)</script>.jsonl"))
    svg = draw_curves(hostile)
    assert "<script" not in svg


def test_the_table_of_two_says_both_areas_and_which_counts(two):
    text = as_text(Printed(curve_blocks(two)), width=80)
    assert max(map(len, text.splitlines())) <= 80
    deltas = two.comparison.deltas["confidence"]
    for label, name in (("AURC ", "aurc_full"), ("AURC common", "aurc_common"), ("coverage", "cmax")):
        row = next(line for line in text.splitlines() if label in line and "[" in line)
        assert f"{getattr(deltas, name).delta:+.3f}" in row
    assert "up to the common coverage" in " ".join(text.split())


def test_a_page_holds_its_pictures_and_allows_nothing_else(one):
    page = curve_page(one)
    assert "default-src 'none'" in unescape(page)
    assert "<script" not in page
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(pictures) == 2
    assert "best ranking possible" in words(pictures[0])
    assert "Is the confidence calibrated?" in words(pictures[1])
    assert "AUGRC" in page


def test_a_page_escapes_what_items_are_called():
    page = curve_page(artifact(table(abstain=0.2, name="<img src=x>.jsonl")))
    assert "<img src=x>" not in page
    assert "&lt;img src=x&gt;" in page
