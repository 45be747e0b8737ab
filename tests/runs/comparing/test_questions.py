"""The two questions of a comparison: about these very cases, and about cases like these."""

import numpy as np
import pytest

import trivium as tv
from tests.runs.comparing.test_missing import without_some
from tests.runs.comparing.told_runs import run_of
from trivium.cli.main import run_command
from trivium.display import as_text
from trivium.runs.comparing.comparison import BETWEEN, WITHIN
from trivium.trust.case_model import Tally, error_on_these_cases
from trivium.trust.decision import DEFAULT_PRIOR, loss_beyond


def both(found):
    return {each.about: each for each in found.questions}


class Attempts:
    """An agent that tells given values, one an attempt at each case."""

    def __init__(self, values):
        self.values = {f"q{i}": list(each) for i, each in enumerate(values)}

    def __call__(self, question):
        return str(self.values[question].pop(0))


def repeated(store, values, **settings):
    from tests.runs.suites import told_suite

    suite = told_suite(len(values), repeats=len(values[0]), **settings)
    return tv.evaluate(suite, agent=Attempts(values), store=store)


def test_with_repeats_these_cases_are_known_better_than_cases_like_these(store):
    # Twelve of forty cases got worse, and no case ever changes its answer.
    base = repeated(store, [[0.6] * 5] * 40)
    head = repeated(store, [[0.1] * 5] * 12 + [[0.6] * 5] * 28)
    found = tv.compare(base, head)
    these, like = both(found)["these"], both(found)["like-these"]
    assert these.delta == pytest.approx(like.delta) == pytest.approx(-0.3)
    assert these.ci95[1] - these.ci95[0] < (like.ci95[1] - like.ci95[0]) / 4
    assert (these.method, found.decide.about) == (WITHIN, "like-these")
    assert found.metrics["pass_rate"].ci95 == like.ci95


def test_without_repeats_they_are_nearly_as_uncertain(store):
    base, head = run_of(store, [0.6] * 40), run_of(store, [0.1] * 6 + [0.6] * 34)
    found = both(tv.compare(base, head))
    assert found["these"].method == BETWEEN
    # The upper bound: the root of the number of losses, over n, and one more case.
    assert found["these"].ci95[0] == pytest.approx(-0.15 - 1.96 * np.hypot(np.sqrt(6) / 40, 1 / 41), abs=1e-3)
    error = np.hypot(np.sqrt(6) / 40, 1 / 41)
    expected = loss_beyond(-0.15, error, -0.02, DEFAULT_PRIOR)
    assert found["these"].probability == pytest.approx(expected)


def test_about_says_which_decides(store, capfd):
    # The cases that lost, 4 of 40, lost for certain: that these got worse is proven, of others it is likely.
    base = repeated(store, [[0.6] * 5] * 40)
    head = repeated(store, [[0.1] * 5] * 4 + [[0.6] * 5] * 36)
    like, these = (
        tv.compare(base, head, policy="proof"),
        tv.compare(base, head, policy="proof", about="these"),
    )
    assert (like.answer, these.answer) == ("inconclusive", "fail")
    assert like.questions == these.questions
    assert these.metrics["pass_rate"].ci95 == both(these)["these"].ci95
    text = " ".join(as_text(these).split())
    assert "This is about these very cases, run again. On other cases like these: likely worse (" in text
    assert "more would be needed" not in text
    assert "what matters" not in text
    assert f"interval by {WITHIN}" in text
    assert "p by sign flips (what decides: by the distribution of its interval)" in text
    text = " ".join(as_text(like).split())
    assert "This is about other cases like these. On these very cases, run again: worse, −0.100 [" in text
    assert "If they are what matters, decide by them: --about these." in text
    command = ["compare", base.id, head.id, "--store", store.url, "--policy", "proof", "--quiet"]
    assert [run_command([*command, *more]) for more in ([], ["--about", "these"])] == [4, 1]
    assert run_command([*command, "--about", "those"]) == 2
    assert "expected one of these, like-these" in capfd.readouterr().err


def test_missing_values_leave_these_cases_open(store):
    base, head = run_of(store, [0.6] * 40), run_of(store, [0.9] * 20 + [0.6] * 20)
    many = without_some(store, head, set(range(25)))
    these = both(tv.compare(base, many))["these"]
    worst, best = these.probabilities
    assert best < 0.5 < worst
    assert these.verdict == "undecided"


def test_the_same_outputs_leave_no_question(store):
    assert tv.compare(run_of(store, [0.6] * 9), run_of(store, [0.6] * 9)).questions == ()


@pytest.mark.parametrize("repeats", [2, 5])
def test_the_error_is_that_of_running_these_cases_again(repeats):
    """Against drawn re-runs of cases whose rates are given."""
    rng = np.random.default_rng(repeats)
    rates = rng.beta(2, 1, (2, 60))

    def run():
        sums = rng.binomial(repeats, rates).astype(float)
        many = np.full(60, repeats)
        return Tally(many, sums[0], sums[0]), Tally(many, sums[1], sums[1])

    runs = [run() for _ in range(400)]
    estimates = [(head.sums - base.sums).sum() / 60 / repeats for base, head in runs]
    # The allowance for one more attempt is in quadrature; without it the variance is unbiased.
    variances = [error_on_these_cases(*each) ** 2 - 1 / (60 * repeats + 1) ** 2 for each in runs]
    assert np.mean(variances) == pytest.approx(np.var(estimates), rel=0.2)


def test_a_side_attempted_once_has_the_spread_of_the_other():
    base = Tally.of([[1.0, 0.0]] * 10)
    single = Tally.of([[1.0]] * 10)
    # Pooled variance 1/2: 10 · (1/2 / 2 + 1/2) / 100, and one more of 10 attempts.
    assert error_on_these_cases(base, single) ** 2 == pytest.approx(0.075 + 1 / 11**2)
    with pytest.raises(ValueError, match="attempts on both sides"):
        error_on_these_cases(base, Tally.of([[]] * 10))


def test_runs_of_named_versions_are_called_by_them():
    cases = [{"input": "a", "references": ["A"]}, {"input": "b", "references": ["b"]}]
    made = [tv.evaluate(cases, agent=str.upper, version=version) for version in ("A", "B")]
    found = tv.compare(*made)
    assert found.versions == {"base": "A", "head": "B"}
    assert f"B ({made[1].id}) against A ({made[0].id})" in " ".join(as_text(found).split())
    unnamed = tv.compare(tv.evaluate(cases, agent=str.upper), made[1])
    assert f"B ({made[1].id}) against {unnamed.base}" in " ".join(as_text(unnamed).split())
