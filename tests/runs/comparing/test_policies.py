"""What each policy makes of what is proven and what is likely, of comparisons and of gates."""

import re
from itertools import product
from pathlib import Path

import msgspec
import pytest

import trivium as tv
from tests.runs.comparing.test_missing import without_some
from tests.runs.comparing.told_runs import run_of
from trivium.cli.main import run_command
from trivium.display import as_text
from trivium.runs.comparing.comparison import WrongRates
from trivium.runs.comparing.decision import wrong_rates
from trivium.runs.summary import GateAnswer
from trivium.suites.settings import POLICIES, Costs, DecideSettings, Gate

LIKELY_WORSE, LIKELY_NOT = (0.7,), (0.3,)


@pytest.mark.parametrize(
    ("policy", "proven", "probabilities", "answer"),
    [
        *product(POLICIES, ["fail"], [(0.99,)], ["fail"]),
        *product(POLICIES, ["pass"], [(0.01,)], ["pass"]),
        *product(["balanced"], ["inconclusive"], [LIKELY_WORSE], ["fail"]),
        *product(["balanced"], ["inconclusive"], [LIKELY_NOT, (0.5,), (0.1, 0.4)], ["pass"]),
        *product(["balanced"], ["inconclusive"], [(), (0.9, 0.1)], ["inconclusive"]),
        *product(["balanced"], ["fail"], [LIKELY_NOT], ["pass"]),  # a loss, and hardly more than the margin
        *product(["proof"], ["inconclusive"], [LIKELY_WORSE, LIKELY_NOT, ()], ["inconclusive"]),
        *product(["strict"], ["inconclusive"], [LIKELY_WORSE, LIKELY_NOT, ()], ["fail"]),
    ],
)
def test_a_policy_answers(policy, proven, probabilities, answer):
    assert DecideSettings(policy=policy).answer(proven, probabilities) == answer


@pytest.mark.parametrize(("odds", "answer"), [(0.249, "pass"), (0.251, "fail")])
def test_costs_move_the_probability_from_which_a_loss_fails(odds, answer):
    dear = DecideSettings(costs=Costs(ship=3, block=1))
    assert dear.costs.threshold == 0.25
    assert dear.answer("inconclusive", (odds,)) == answer
    assert DecideSettings().answer("inconclusive", (odds,)) == "pass"
    assert DecideSettings(costs=Costs(ship=1, block=1000)).answer("inconclusive", (odds,)) == "pass"


def told(store, losses, gains=0, cases=40, **settings):
    """Two runs: of the cases that told 0.6, so many now tell 0.1, and so many 0.9."""
    after = [0.1] * losses + [0.9] * gains + [0.6] * (cases - losses - gains)
    return run_of(store, [0.6] * cases, **settings), run_of(store, after, **settings)


def test_what_proves_nothing_says_which_margin_the_cases_show(store):
    base, head = told(store, 1, margin=0.2)
    settled = tv.compare(base, head).metrics["pass_rate"]
    assert (settled.answer, settled.shows, settled.shows_margin) == ("pass", None, None)
    open_ = tv.compare(base, head, margin=0.02)
    figure = open_.metrics["pass_rate"]
    assert 0.1 < figure.shows < 0.2
    said = f"40 cases can prove that a change loses no more than {figure.shows:.2g}; for 0.02 it takes about "
    assert 100 < figure.shows_margin < 1_000
    assert f"{said}{round(figure.shows_margin, -1)}." in open_.reason
    assert said in " ".join(as_text(open_).split())
    assert tv.compare(base, head, margin=figure.shows + 1e-9).metrics["pass_rate"].shows_margin in {None, 40}


def test_cases_in_groups_show_a_margin_in_cases(store):
    after = [0.1] * 4 + [0.6] * 36
    groups = {f"q{i}": f"g{i // 4}" for i in range(40)}
    both = (run_of(store, values, groups=groups) for values in ([0.6] * 40, after))
    figure = tv.compare(*both, margin=0.02).metrics["pass_rate"]
    assert figure.shows_margin % 4 == 0
    assert figure.shows_margin > 40


@pytest.mark.parametrize(
    ("losses", "cases", "word", "answers"),
    [
        (20, 40, "worse", ("fail", "fail", "fail")),
        (4, 40, "likely worse", ("fail", "inconclusive", "fail")),
        (1, 40, "likely not worse", ("pass", "inconclusive", "fail")),
    ],
)
def test_the_pass_rate_decides_by_each_policy(store, losses, cases, word, answers):
    runs = told(store, losses, cases=cases)
    found = {policy: tv.compare(*runs, policy=policy) for policy in POLICIES}
    assert tuple(found[policy].answer for policy in ("balanced", "proof", "strict")) == answers
    assert {each.verdict for each in found.values()} == {word}
    assert {each.proof for each in found.values()} == {answers[1]}
    assert tv.compare(*runs).answer == answers[0], "balanced is the default"
    for policy, each in found.items():
        text = " ".join(as_text(each, width=100).split())
        assert f"Policy {policy}" in text
        assert policy == "proof" or f"by proof alone: {answers[1]}" in text


def test_every_key_of_decide_shows(store):
    runs = told(store, 4)
    assert tv.compare(*runs).answer == "fail"
    for decide, answer in (
        ({"policy": "proof"}, "inconclusive"),
        ({"by": "told"}, "pass"),  # 0.05 less on average, which its interval does not tell from 0.02
        ({"costs": {"ship": 1, "block": 50}}, "pass"),
        ({"about": "these", "policy": "proof"}, "fail"),
    ):
        settings = {"decide": msgspec.convert(decide, DecideSettings)}
        losses = {"by": 2, "about": 12}.get(next(iter(decide)), 4)
        found = tv.compare(*told(store, losses, gains=2, **settings))
        assert found.answer == answer, decide
        assert found.decided_by == (decide.get("by", "pass_rate"),)
    with pytest.raises(
        tv.TriviumError, match=r'decide.by: no pair has a value of "tol". Did you mean "told"'
    ):
        tv.compare(*told(store, 4, decide=DecideSettings(by="tol")))


def test_missing_values_that_could_change_the_answer_leave_it_open_and_end_with_3(store, capfd):
    base, head = told(store, 0, gains=20)
    few = without_some(store, told(store, 0, gains=20)[1], {0})
    many = without_some(store, head, set(range(25)))
    found = tv.compare(base, few)
    assert (found.answer, found.verdict) == ("pass", "likely not worse")
    found = tv.compare(base, many)
    assert (found.answer, found.verdict) == ("inconclusive", "undecided")
    worst, best = found.metrics["pass_rate"].probabilities
    assert best < 0.5 < worst
    assert run_command(["compare", base.id, many.id, "--store", store.url]) == 3
    assert "Undecided: " in capfd.readouterr().out
    assert (
        run_command(["compare", base.id, many.id, "--store", store.url, "--policy", "strict", "--quiet"]) == 1
    )


def test_a_metric_that_does_not_decide_fails_only_beyond_chance_and_is_named_first(store):
    base = run_of(store, [0.9] * 40, passed={"metric": "told", "at_least": 0.1})
    head = run_of(
        store, [0.5 + 0.01 * (i % 3) for i in range(40)], passed={"metric": "told", "at_least": 0.1}
    )
    found = tv.compare(base, head)
    assert (found.answer, found.proof, found.decided_by) == ("fail", "fail", ("pass_rate",))
    assert found.failing == ("composite",), "told has the same values and is the same row"
    text = " ".join(as_text(found, width=100).split())
    assert "✗ fail. Worse: composite 0.900 → 0.5" in text
    assert "beyond chance, though it does not decide. What decides: pass_rate 1.000 → 1.000" in text
    assert "composite fails the comparison whatever pass_rate did" in text


def test_metrics_with_the_same_values_are_one_row_and_one_test(store):
    found = tv.compare(*told(store, 4, gains=2))
    same = {name: each.same_as for name, each in found.metrics.items()}
    assert same == {"composite": None, "pass_rate": None, "told": "composite"}
    rows = [line for line in as_text(found, width=120).splitlines() if "0.600" in line or "1.000" in line]
    assert sum("composite = told" in line for line in rows) == 1
    assert not any(line.split()[1:2] == ["told"] for line in rows)
    p = {name: each.p for name, each in found.metrics.items()}
    assert found.metrics["told"].p_holm == found.metrics["composite"].p_holm
    assert min(each.p_holm for each in found.metrics.values()) == pytest.approx(
        min(1, 2 * min(p.values()))
    ), "two tests, not three"


def test_gates_are_decided_by_the_policy_too(store):
    gates = {"pass_rate": Gate(at_least=0.85), "told": Gate(at_most=0.54)}
    run = run_of(store, [0.6] * 35 + [0.1] * 5, gates=gates)
    answers = {policy: [gate.answer for gate in run.summary(policy=policy).gates] for policy in POLICIES}
    assert answers == {
        "balanced": ["pass", "pass"],
        "proof": ["inconclusive", "inconclusive"],
        "strict": ["fail", "fail"],
    }
    assert "misses the limit with probability" in as_text(run.summary(), width=150)


def test_a_gate_stored_before_there_were_policies_still_shows():
    old = {"gate": "told ≥ 0.5", "answer": "inconclusive", "value": 0.6, "ci95": [0.4, 0.8], "needs_cases": 9}
    gate = msgspec.convert(old, GateAnswer)
    assert gate.by(DecideSettings(policy="proof")).answer == "inconclusive"
    assert gate.by(DecideSettings(policy="strict")).answer == "fail"
    assert gate.by(DecideSettings()).answer == "inconclusive", "its probability was not stored"


def test_without_an_interval_nothing_is_likely(store):
    groups = {"q0": "g", "q1": "g"}
    found = tv.compare(run_of(store, [0.6, 0.6], groups=groups), run_of(store, [0.1, 0.1], groups=groups))
    assert (found.answer, found.verdict, found.probability) == ("inconclusive", "not measured", None)


def test_how_often_a_policy_is_wrong_is_what_the_trials_found():
    page = (Path(__file__).parents[3] / "docs/decisions.md").read_text(encoding="utf-8")
    found = re.findall(
        r"^\| (balanced|proof|strict) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE
    )
    assert len(found) == 15
    assert f"{100 * wrong_rates(DecideSettings(), 60).losses:.0f} of 100 are losses" in page
    for policy, cases, *shares in found:
        expected = WrongRates(int(cases), *(int(share) / 100 for share in shares))
        assert wrong_rates(DecideSettings(policy=policy), int(cases)) == expected


def test_the_trial_with_the_most_cases_that_are_no_more_counts():
    how = DecideSettings()
    assert [rates and rates.cases for rates in (wrong_rates(how, n) for n in (4, 19, 59, 199, 10**6))] == [
        None,
        10,
        20,
        60,
        200,
    ]
    assert wrong_rates(DecideSettings(costs=Costs(ship=3)), 60) is None
    assert wrong_rates(DecideSettings(policy="strict", costs=Costs(ship=3)), 60) is not None


@pytest.mark.parametrize(
    ("policy", "told_so"),
    [
        (
            "balanced",
            "wrong in 25 of 100 (21 of 32 losses shipped and 4 of 68 others blocked).",
        ),
        (
            "proof",
            "hardly ever wrong, and left 98 of 100 open.",
        ),
        (
            "strict",
            "wrong in 67 of 100 (67 of 68 others blocked).",
        ),
    ],
)
def test_an_answer_says_how_often_its_policy_is_wrong(store, policy, told_so):
    found = tv.compare(*told(store, 1), policy=policy)
    assert found.wrong == wrong_rates(DecideSettings(policy=policy), 40)
    before = "In trials with 20 independent cases (here 40 cases) it was"
    assert f"{before} {told_so}" in " ".join(as_text(found).split())
    assert "In trials" not in as_text(tv.compare(*told(store, 1, cases=4), policy=policy))


def test_cases_of_few_groups_count_as_so_many(store):
    groups = {f"q{i}": f"g{i % 30}" for i in range(60)}
    found = tv.compare(*told(store, 1, cases=60, groups=groups))
    assert found.wrong == wrong_rates(DecideSettings(), 20)
    assert "with 20 independent cases (here 30 groups)" in " ".join(as_text(found).split())
