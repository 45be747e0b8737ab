import math

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.reports import samples
from trivium.reports import wording
from trivium.runs.summary import GateAnswer


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_no_number_is_a_dash(value):
    assert wording.number(value) == wording.seconds(value) == "–"


@given(st.floats(0, 1))
@example(0.003)
@example(0.997)
def test_only_all_is_called_100_per_cent_and_only_nothing_0(value):
    assert (wording.share(value) == "100 %") == (value == 1)
    assert (wording.share(value) == "0 %") == (value == 0)


def test_durations_read_in_their_unit():
    assert [wording.seconds(value) for value in (0.0123, 3.25, 600)] == ["12 ms", "3.2 s", "10.0 min"]


def test_only_statuses_that_are_not_ok_are_counted():
    assert wording.not_ok({"ok": 5, "fallback": 2, "error": 0}) == "2\N{NO-BREAK SPACE}fallback"


def test_the_head_line_says_what_is_missing_and_failed():
    summary = samples.summary(attempts=1, cases=1, missing=2, errors={"attempts": 0, "scores": 3})
    assert wording.headline(summary) == "1 attempt of 1 case · 2 missing · 3 scores in error"


def test_undecided_attempts_are_counted():
    summary = samples.summary(attempts=10, passed=3, failed=5)
    assert wording.passed_of(summary) == "3 of 8 passed, 2 undecided"
    lost = samples.summary(attempts=10, passed=0, failed=0, errors={"scores": 10})
    assert wording.passed_of(lost) == "0 of 0 passed, 10 undecided"
    none = samples.summary(attempts=10, passed=0, failed=0, errors={})
    assert wording.passed_of(none) == "no attempt has a verdict"


def test_a_composite_without_value_recommends_nothing():
    figure = msgspec.structs.replace(samples.summary().composite, mean=None, recommendation=None)
    assert wording.composite_sentence(figure).startswith("no recommendation")


def test_an_inconclusive_gate_says_what_would_settle_it():
    gate = GateAnswer(gate="g", answer="inconclusive", value=0.5, ci95=(0.4, 0.6), needs_cases=1200)
    words = "would settle it with 80 % probability if the truth is where the estimate is"
    assert wording.gate_sentence(gate) == f"0.500 [0.400, 0.600], about 1,200 more cases {words}"
    grouped = msgspec.structs.replace(gate, needs_groups=150)
    assert f"about 150 more groups (1,200 cases) {words}" in wording.gate_sentence(grouped)
    endless = msgspec.structs.replace(gate, needs_cases=None)
    assert wording.gate_sentence(endless).endswith("more than 10,000 more would be needed to settle it")
    unknown = msgspec.structs.replace(gate, needs_cases=None, ci95=None)
    assert wording.gate_sentence(unknown) == "0.500 –"


def test_under_ten_groups_an_interval_is_not_called_by_its_level():
    def note(groups):
        summary = samples.summary()
        metrics = {"cosine": msgspec.structs.replace(summary.metrics["cosine"], groups=groups)}
        return wording.interval_note(msgspec.structs.replace(summary, metrics=metrics, composite=None))

    assert note(12).startswith("95 % intervals: ")
    assert note(9).startswith("Nominal 95 % intervals")


def test_without_intervals_there_is_no_note():
    summary = samples.summary(samples.views(1))
    rate = msgspec.structs.replace(summary.pass_rate, ci95=None)
    composite = msgspec.structs.replace(summary.composite, ci95=None)
    bare = msgspec.structs.replace(summary, pass_rate=rate, composite=composite, metrics={})
    assert wording.interval_note(bare) is None


def test_a_dimension_that_is_also_a_metric_is_not_repeated():
    summary = samples.summary(dimension_averages={"planning_rationality": 0.7, "clarity": 0.5})
    assert wording.further_dimensions(summary) == {"clarity": 0.5}
