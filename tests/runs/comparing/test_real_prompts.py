"""Tests a comparison of two real prompts against a computation with SciPy."""

import json
from itertools import permutations

import pytest
from scipy import stats

import trivium as tv
from tests.goldens import data
from tests.runs.suites import Says
from trivium.runs.until_decided.difference import Difference
from trivium.runs.until_decided.order import GroupOrder
from trivium.suites.case import Expect
from trivium.suites.settings import Settings, SuccessRule

NEUTRAL = "zero_shot/neutral/no_reviews/set226"
MARGIN = 0.02


@pytest.fixture(scope="module")
def verdicts():
    """For each model and prompt, verdict and decision by paper."""
    found: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    for line in data("paper_verdicts.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        of = found.setdefault((row["model"], row["prompt"]), {})
        of[row["paper_id"]] = row["prediction"], row["ground_truth"]
    return found


def evaluated(papers, store):
    cases = [
        tv.Case(id=paper, input=paper, expect=Expect(output=decision))
        for paper, (_, decision) in papers.items()
    ]
    rule = Settings(metrics=("success",), success=SuccessRule(exact=True))
    agent = Says({paper: verdict for paper, (verdict, _) in papers.items()})
    return tv.evaluate(tv.Suite(name="papers", cases=cases, settings=rule), agent=agent, store=store)


@pytest.mark.parametrize(
    ("model", "base", "head", "answer"),
    [
        # Reviews help: ten papers more are judged rightly, none is lost.
        ("llama-3.3-70b-instruct", NEUTRAL, "zero_shot/neutral/with_reviews/set226", "pass"),
        # Turned round the same is a loss.
        ("llama-3.3-70b-instruct", "zero_shot/neutral/with_reviews/set226", NEUTRAL, "fail"),
        # Sure to lose less than the margin, though not sure to win.
        ("gemma-3-12b-it", NEUTRAL, "zero_shot/neutral/with_reviews/set226", "pass"),
        # A mean that is 0.07 better proves nothing on 148 papers, nor does one that is 0.13 worse.
        ("deepseek-v3.2", NEUTRAL, "zero_shot/neutral/with_reviews/set226", "inconclusive"),
        ("deepseek-v3.2", NEUTRAL, "zero_shot/severe_conservative/no_reviews/set226", "inconclusive"),
        # Nearly every verdict changes, and as many for the better as for the worse.
        ("gemma-3-12b-it", NEUTRAL, "zero_shot/conservative/no_reviews/set226", "inconclusive"),
    ],
)
def test_two_prompts_on_the_same_papers(verdicts, store, model, base, head, answer):
    left, right = verdicts[model, base], verdicts[model, head]
    assert left.keys() == right.keys()
    found = tv.compare(evaluated(left, store), evaluated(right, store), margin=MARGIN)
    rate = found.metrics["pass_rate"]

    was = [float(verdict == decision) for verdict, decision in left.values()]
    now = [float(verdict == decision) for verdict, decision in (right[paper] for paper in left)]
    gained = sum(b > a for a, b in zip(was, now, strict=True))
    lost = sum(b < a for a, b in zip(was, now, strict=True))
    ends = stats.ttest_rel(now, was).confidence_interval(0.95)
    mcnemar = stats.binomtest(gained, gained + lost).pvalue

    assert (rate.wins, rate.losses, rate.n) == (gained, lost, len(left))
    assert rate.delta == pytest.approx((gained - lost) / len(left))
    # The interval allows for changes that were not met.
    assert rate.ci95 == pytest.approx((ends.low, ends.high), abs=0.02)
    assert rate.ci95[0] <= ends.low
    assert rate.ci95[1] >= ends.high
    assert rate.p == pytest.approx(max(1e-6, mcnemar), rel=1e-6)
    expected = "pass" if ends.low > -MARGIN else "fail" if ends.high < 0 else "inconclusive"
    assert found.proof == rate.answer == expected == answer


def test_stopping_early_contradicts_no_mean_over_all_papers(verdicts):
    """Every two of the twelve models and prompts with 148 papers, margin 0.05, in one order each.

    An answer is at odds with all papers if it passes although the mean over all lost more than the margin, or
    fails although it won.
    """
    right = {
        key: {paper: float(verdict == decision) for paper, (verdict, decision) in papers.items()}
        for key, papers in verdicts.items()
        if key[1].endswith("set226")
    }
    assert len(right) == 12
    decided, at_odds, asked, worlds = 0, 0, 0.0, 0
    for base, head in permutations(sorted(right), 2):
        differences = {paper: right[head][paper] - value for paper, value in right[base].items()}
        mean = sum(differences.values()) / len(differences)
        worlds += 1
        test = Difference(margin=0.05, level=0.95, largest=1)
        order = GroupOrder(f"{base} {head}", dict.fromkeys(differences, frozenset()))
        for paper in order.names:
            asked += 1 / len(differences)
            test.bet([differences[paper]], [differences[paper]])
            if test.decided:
                break
        decided += test.decided
        at_odds += (test.answer == "pass" and mean <= -0.05) or (test.answer == "fail" and mean >= 0)
    assert worlds == 132
    assert at_odds <= 0.05 * worlds
    assert decided > 10
    assert asked / worlds < 1
