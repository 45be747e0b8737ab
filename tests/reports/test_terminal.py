import re

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.reports import samples
from tests.reports.hostile_samples import hostile_summary
from trivium.display import as_text
from trivium.reports.terminal import SummaryTable

names = st.text(min_size=1, max_size=60)


def lines(summary, **options):
    return as_text(SummaryTable(summary), **options).splitlines()


@pytest.mark.parametrize("width", [80, 100, 104, 140, 200])
@pytest.mark.parametrize("summary", [samples.summary(), hostile_summary()], ids=["calm", "hostile"])
def test_the_table_fits_its_columns(summary, width):
    assert max(cell_len(line) for line in lines(summary, width=width)) <= width


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(names, names, names)
def test_the_table_fits_80_columns_for_all_names(metric, case, suite):
    base = samples.summary()
    summary = msgspec.structs.replace(
        base,
        suite=suite,
        metrics={metric: base.metrics["similarity"]},
        failures=(msgspec.structs.replace(base.failures[0], case=case),),
        dimension_averages={case: 0.5},
    )
    shown = lines(summary, width=80)
    assert max(cell_len(line) for line in shown) <= 80
    assert "0.389 " in "\n".join(shown)


def test_a_built_in_name_stays_on_one_line_at_80_columns():
    assert any(re.match(r"coordination_quality +0\.576 ", line) for line in lines(samples.summary()))


def test_intervals_are_drawn_where_there_is_room():
    assert not any("●" in line for line in lines(samples.summary(), width=103))
    drawn = [line for line in lines(samples.summary(), width=104) if "●" in line]
    assert len(drawn) == 11


def test_warnings_come_before_any_figure():
    text = "\n".join(lines(samples.summary()))
    assert text.index("similarity is a fallback") < text.index("metric ")


def test_no_control_character_of_a_stranger_reaches_the_terminal():
    text = as_text(SummaryTable(hostile_summary()), colour=False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_colours_are_there_when_asked_for():
    assert "\x1b[" in as_text(SummaryTable(samples.summary()), colour=True)


def test_the_number_of_failures_not_shown_is_reported():
    text = "\n".join(lines(samples.summary(failures_left_out=1000)))
    assert "did not pass (5 of 1,015, worst first)" in text


def test_people_stand_beside_the_run_on_equal_footing():
    shown = lines(samples.summary())
    below = shown[shown.index("compared with people") :]
    assert below[1] == "each output scored against the other people's outputs of its case"
    assert any(re.match(r"similarity +0\.377 +\[0\.327, 0\.427\] +0\.393 +\[", line) for line in below)
    assert not any("0.393" in line for line in shown[: shown.index("compared with people")])


def test_a_metric_that_is_only_reported_is_not_called_missing():
    (line,) = [line for line in lines(samples.summary(), width=140) if line.startswith("complexity")]
    assert "not scored" in line
    assert "0 %" not in line


def test_a_summary_of_nothing_is_still_shown():
    empty = samples.summary(
        [], metrics={}, composite=None, gates=(), failures=(), warnings=(), human_ceiling=None
    )
    text = "\n".join(lines(empty))
    assert "0 attempts of 0 cases" in text
    assert "pass rate" in text


def test_every_gate_shows_its_answer():
    text = "\n".join(lines(samples.summary()))
    assert all(answer in text for answer in ("✓ pass", "✗ fail", "? inconclusive"))
