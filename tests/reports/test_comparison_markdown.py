import re

import trivium as tv
from tests.reports import comparison_samples as samples
from tests.runs.comparing.told_runs import run_of
from trivium.reports.comparison import render_markdown
from trivium.runs.comparing.moved_cases import MovedCases
from trivium.store.store import Store


def test_every_figure_is_a_row_of_as_many_cells_as_the_head():
    text = render_markdown(samples.comparison())
    table = [line for line in text.splitlines() if line.startswith("|") and line.count("|") > 3]
    assert len(table) == 2 + 4
    assert {line.count("|") for line in table} == {10}
    assert "| ❔ | `composite` | 0.500 | 0.490 | **−0.010** | \\[−0.060, +0.040\\] | 0.340 |" in text


def test_the_answer_is_the_title_and_what_changed_comes_next():
    lines = render_markdown(samples.comparison()).splitlines()
    assert lines[0] == "### ❔ Trivium · `paper-reviews`: inconclusive"
    assert lines[2].startswith(
        "Likely not worse (75 %): composite 0.500 → 0.490, −0.010 \\[−0.060, +0.040\\]; about 812"
    )
    changed = next(at for at, line in enumerate(lines) if line.startswith("**What changed** · 2 of 60 cases"))
    assert changed == lines.index("", 3) + 1  # the first block after the answer
    assert lines[-3].startswith("> ⚠️ 4 of 90")


def test_what_moved_is_folded_and_left_out_where_nothing_is_known():
    (line,) = (
        each for each in render_markdown(samples.comparison()).splitlines() if "<code>q3</code>" in each
    )
    assert line.startswith("<details><summary>🔴 <code>q3</code> passed → not passed")
    assert "<del>" in line
    assert "<ins>" in line
    assert "<details>" not in render_markdown(samples.comparison(moved_cases=MovedCases()))


def test_texts_of_strangers_are_shown_and_never_obeyed():
    text = render_markdown(samples.hostile())
    assert "<script" not in text
    assert "@all" not in text
    rows = [re.sub(r"\\.", "", line) for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {3, 10}


def test_the_cases_that_broke_are_named_after_the_answer_and_flaky_ones_are_not(tmp_path):
    before = [[0.6, 0.6, 0.6]] * 30
    broke, flaky = [[0.1, 0.1, 0.1]] * 22, [[0.6, 0.1, 0.6]] * 2
    after = [*broke, *flaky, *before[24:]]
    with Store(str(tmp_path / "store.db")) as store:
        runs = [run_of(store, each, repeats=3) for each in (before, after)]
        lines = render_markdown(tv.compare(*runs)).splitlines()
        same = render_markdown(tv.compare(runs[0], runs[0]))
    assert lines[2].startswith("Worse")
    (broken,) = [place for place, line in enumerate(lines) if line.startswith("Broke")]
    assert lines[broken + 1].startswith("This is about other cases")
    assert lines[broken].rstrip() == "Broke: " + ", ".join(f"q{i}" for i in range(20)) + " and 2 more."
    assert "Broke" not in same
