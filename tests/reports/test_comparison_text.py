import pytest

from tests.reports import comparison_samples as samples
from trivium.reports import comparison as phrases
from trivium.reports import wording


@pytest.mark.parametrize(
    ("value", "text"), [(0.1, "+0.100"), (-0.0524, "−0.052"), (0.0, "0.000"), (-0.0001, "0.000"), (None, "–")]
)
def test_a_difference_has_its_sign_unless_it_rounds_to_nothing(value, text):
    assert wording.signed(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0002, "<0.001"), (0.05, "0.050"), (1.0, "1.000"), (None, "–")]
)
def test_a_small_probability_is_never_0(value, text):
    assert wording.probability(value) == text


def test_what_got_worse_and_what_got_better_are_a_sentence_each_the_largest_first():
    metrics = {
        "composite": samples.delta(0.1, 0.2, "inconclusive", p=0.3),
        "calls": samples.delta(-0.1, 0.05, "fail", p=0.01),
        "backed": samples.delta(-0.2, 0.05, "fail", p=0.05),
        "time": samples.delta(0.0, 0.1),
    }
    worse, better = phrases.worse_and_better(samples.comparison(metrics=metrics))
    assert worse == "Worse: backed −0.200 and calls −0.100 (each taken alone, p ≤ 0.05)."
    assert better == "Better beyond chance: no metric."
    many = metrics | {f"m{n}": samples.delta(0.1 + n / 10, 0.05, p=0.001) for n in range(6)}
    _, better = phrases.worse_and_better(samples.comparison(metrics=many))
    assert better.startswith(
        "Better: m5 +0.600, m4 +0.500, m3 +0.400, m2 +0.300 and 2 more (each taken alone"
    )
    assert phrases.worse_and_better(samples.comparison(unchanged=True)) == []


def test_the_verdict_stands_apart_from_by_how_much_on_a_page():
    made = samples.comparison()
    apart, together = phrases.answer(made, apart=True), phrases.answer(made)
    assert together.sentence == f"{apart.words}: {apart.sentence}"
    assert (together.words, together.answer) == ("", apart.answer)


def test_each_deciding_figure_says_what_it_could_tell_and_the_answer_does_not_say():
    made = samples.comparison()
    one, other = phrases.outlook(made)
    assert "about 812 more cases would settle it" in phrases.answer_sentence(made)
    assert one == "composite: 1,239 cases detect a difference of 0.050 with 80 % power"
    assert other == "pass_rate: 1,239 cases detect a difference of 0.050 with 80 % power"


def test_a_missing_spread_or_interval_is_reported():
    metrics = {
        "composite": samples.delta(0.0, 0.1, mde=None),
        "pass_rate": samples.delta(0.0, None, mde=None),
    }
    one, other = phrases.outlook(samples.comparison(metrics=metrics))
    assert "every case changed equally" in one
    assert "one group gives no interval" in other


def test_unchanged_outputs_leave_nothing_to_tell():
    assert phrases.outlook(samples.comparison(unchanged=True)) == []


def test_only_inconclusive_metrics_need_cases():
    assert phrases.further_cases(samples.delta(0.1, 0.2, "inconclusive", needs_cases=1_200)) == "1,200"
    assert phrases.further_cases(samples.delta(0.1, 0.2, "inconclusive", needs_cases=None)) == ">10,000"
    assert phrases.further_cases(samples.delta(0.1, None, "inconclusive", needs_cases=None)) == "–"
    assert phrases.further_cases(samples.delta(0.1, 0.05)) == ""


def test_the_note_does_not_call_intervals_of_few_groups_by_their_level():
    assert phrases.note(samples.comparison()).startswith("95 % intervals: cluster t; 40 groups;")
    few = {
        "composite": samples.delta(0.1, 0.1, groups=5),
        "time": samples.delta(0.1, None, groups=3, method=None),
    }
    assert phrases.note(samples.comparison(metrics=few)).startswith(
        "Nominal 95 % intervals: cluster t; 3 to 5 groups;"
    )
