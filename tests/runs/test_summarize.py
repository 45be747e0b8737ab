"""Tests summaries against values computed by hand, with NumPy, or by counting."""

import io
import json
from math import comb

import msgspec
import numpy as np
import pytest
from rich.console import Console

import trivium as tv
from tests.runs.comparing.told_runs import run_of as told_run
from tests.runs.suites import TOLD, Says, told_suite, tv_composite
from trivium.runs.summary import Summary
from trivium.store.store import Store
from trivium.suites.settings import (
    COMPOSITE_PARTS,
    CompositeSettings,
    Gate,
    PassRule,
    Settings,
    SuccessRule,
    Thresholds,
)
from trivium.trust.intervals import mean_interval


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def summary_of(store, answers, **settings):
    groups = settings.pop("groups", None)
    suite = told_suite(len(answers), groups=groups, **settings)
    return tv.evaluate(suite, agent=Says({f"q{i}": a for i, a in enumerate(answers)}), store=store).summary()


def test_a_mean_over_independent_cases_has_the_interval_of_their_values(store):
    values = np.linspace(0.1, 0.9, 24) ** 2
    figure = summary_of(store, list(values)).metrics["told"]
    expected = mean_interval(values, np.arange(24))
    assert figure.mean == pytest.approx(values.mean(), abs=1e-12)
    assert figure.ci95 == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert (figure.n, figure.groups, figure.coverage) == (24, 24, 1.0)


def test_repeats_are_reduced_before_the_interval_so_that_they_do_not_count_as_evidence(store):
    values = [0.1, 0.4, 0.6, 0.9]
    once = summary_of(store, values).metrics["told"]
    thrice = summary_of(store, [[v, v, v] for v in values], repeats=3).metrics["told"]
    assert thrice.ci95 == pytest.approx(once.ci95)
    assert (thrice.n, thrice.groups) == (12, 4)


@pytest.mark.parametrize(
    ("reduce", "expected"), [("mean", 0.5), ("best", 0.9), ("worst", 0.2), ("majority", 0.2)]
)
def test_the_reducer_is_the_suites(store, reduce, expected):
    answers = [[0.2, 0.2, 0.7, 0.9], [0.2, 0.2, 0.7, 0.9]]
    assert summary_of(store, answers, repeats=4, reduce=reduce).metrics["told"].mean == pytest.approx(
        expected
    )


def test_more_evaluations_than_are_taken_in_at_once_make_one_mean(store):
    values = np.tile([0.1, 0.4, 0.5, 0.8, 1.0], 241)
    summary = summary_of(store, list(values))
    figure = summary.metrics["told"]
    assert figure.mean == pytest.approx(values.mean(), abs=1e-12)
    assert (figure.n, figure.groups, figure.status) == (1205, 1205, {"ok": 1205})


def test_what_a_run_stores_of_its_summary_is_all_of_it(store):
    suite = told_suite(4)
    run = tv.evaluate(suite, agent=Says({"q0": 0.1, "q1": 0.9, "q2": None, "q3": 1.0}), store=store)
    assert msgspec.convert(run.record.summary, Summary) == run.summary()


def test_groups_are_the_clusters(store):
    values = [0.1, 0.1, 0.1, 0.9, 0.9, 0.9]
    groups = {f"q{i}": "ab"[i // 3] for i in range(6)}
    figure = summary_of(store, values, groups=groups).metrics["told"]
    assert figure.groups == 2
    alone = summary_of(store, values).metrics["told"]
    assert figure.ci95[1] - figure.ci95[0] > alone.ci95[1] - alone.ci95[0]


def test_one_group_gives_no_interval_and_says_so(store):
    summary = summary_of(store, [0.1, 0.5], groups={"q0": "g", "q1": "g"})
    assert summary.metrics["told"].ci95 is None
    assert any("one group gives no interval" in warning for warning in summary.warnings)


@pytest.mark.parametrize(
    ("count", "words"), [(5, "too few to call them 95 %"), (12, "fewer than 20 they are wide")]
)
def test_few_groups_are_warned_of(store, count, words):
    summary = summary_of(store, [0.1 * (i % 10) for i in range(count)])
    assert any(words in warning for warning in summary.warnings)


def test_many_groups_of_which_one_holds_most_cases_are_warned_of(store):
    # 24 groups of 1 case and one of 16: (24 + 16)² / (24 + 16²) = 5.7.
    groups = {f"q{i}": f"g{max(0, i - 15)}" for i in range(40)}
    words = "25 unequal groups that weigh as much as 6 equal ones"
    values = [0.1 * (i % 10) for i in range(40)]
    assert any(words in warning for warning in summary_of(store, values, groups=groups).warnings)
    runs = [told_run(store, values, groups=groups) for _ in range(2)]
    assert any(words in warning for warning in tv.compare(*runs).warnings)


def test_many_groups_are_not_warned_of(store):
    assert summary_of(store, [0.1 * (i % 10) for i in range(25)]).warnings == ()


def test_the_reason_for_a_missing_score_is_reported_once_not_for_every_dependent_metric(store):
    suite = tv.Suite(
        name="s",
        cases=[tv.Case(id="a", input="?", references=("x y",))],
        settings=Settings(metrics=("semantic", "similarity"), encoder="no..such"),
    )
    warnings = tv.evaluate(suite, agent=str.upper, store=store).summary().warnings
    assert "\n".join(warnings).count("no..such is not a name") == 1
    assert any(w.startswith("semantic has no score: no..such is not a name") for w in warnings)
    assert any(w.startswith("similarity is a fallback in 1 of 1:") for w in warnings)
    whatever = Settings(encoder="no..such", success=SuccessRule(metric="similarity", at_least=0.8))
    suite = tv.Suite(name="s", cases=list(suite), settings=whatever)
    warnings = tv.evaluate(suite, agent=str.upper, store=store).summary().warnings
    first, second = (w.partition(". ")[2] for w in warnings if " is a fallback in " in w)
    assert first.startswith("without semantic: no..such is not a name on the Hugging Face hub")
    assert second == "without semantic"


def test_a_shared_cause_is_reported_once_by_its_first_line(store):
    def agent(question):
        return {"output": "x", "trace": {"spans": "none\nof them\nis a list"}}

    suite = tv.Suite(name="s", cases=[tv.Case(id="a", input="?")])
    metrics = ["tool_success", "task_balance", "complexity"]
    warnings = tv.evaluate(suite, agent=agent, metrics=metrics, store=store).summary().warnings
    (told,) = (each for each in warnings if "the trace of the attempt cannot be read" in each)
    assert all(name in told for name in metrics)
    assert "\n" not in told


def test_an_incomplete_trace_is_warned_of(store):
    problem = {"kind": "incomplete", "span": None, "what": "half of it was elsewhere"}

    def agent(question):
        return {"output": "x", "trace": {"spans": [], "problems": [problem]}}

    suite = tv.Suite(name="s", cases=[tv.Case(id=name, input="?") for name in "ab"])
    run = tv.evaluate(suite, agent=agent, metrics=["task_balance", "path_agreement"], store=store)
    assert "the trace is incomplete: half of it was elsewhere (2 attempts)" in run.summary().warnings


def test_skipped_scores_leave_the_mean_and_show_in_coverage_and_bounds(store):
    figure = summary_of(store, [0.4, "skip", 0.8, "skip"]).metrics["told"]
    assert figure.mean == pytest.approx(0.6)
    assert (figure.n, figure.coverage, figure.status) == (2, 0.5, {"ok": 2, "skipped": 2})
    assert figure.bounds == pytest.approx((1.2 / 4, 3.2 / 4))


def test_pass_at_k_and_pass_hat_k_are_means_over_cases(store):
    answers = [[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]]
    summary = summary_of(store, answers, repeats=4)
    successes = [3, 0, 4]
    for k in range(1, 5):
        hat = np.mean([comb(c, k) / comb(4, k) for c in successes])
        at = np.mean([1 - comb(4 - c, k) / comb(4, k) for c in successes])
        assert summary.metrics[f"pass^{k}"].mean == pytest.approx(hat)
        assert summary.metrics[f"pass@{k}"].mean == pytest.approx(at)


def test_beyond_five_attempts_k_doubles_up_to_all_of_them(store):
    metrics = summary_of(store, [[1, 0] * 11, [0] * 22], repeats=22).metrics
    assert [name for name in metrics if "@" in name] == [f"pass@{k}" for k in (1, 2, 3, 4, 5, 10, 20, 22)]
    assert metrics["pass^10"].mean == pytest.approx(comb(11, 10) / comb(22, 10) / 2)


def test_a_single_attempt_has_no_pass_at_k(store):
    assert list(summary_of(store, [0.1, 0.9]).metrics) == ["told"]


class TestFailedAttempts:
    answers = (1, ValueError("x"), 1, 1)

    def test_count_as_zero(self, store):
        summary = summary_of(store, list(self.answers))
        assert summary.pass_rate.value == 0.75
        assert summary.composite.mean == pytest.approx(0.75)
        assert summary.metrics["told"].n == 3

    def test_are_left_out_when_the_suite_says_so_and_still_counted(self, store):
        summary = summary_of(store, list(self.answers), failed_attempts="skip")
        assert summary.pass_rate.value == 1.0
        assert summary.composite.mean == 1.0
        assert summary.errors["attempts"] == 1
        assert any("left out" in warning for warning in summary.warnings)


class TestGates:
    def answer(self, store, values, **gates):
        summary = summary_of(store, values, gates={name: Gate(**gate) for name, gate in gates.items()})
        return {gate.gate: gate.proof for gate in summary.gates}

    def test_pass_fail_and_inconclusive(self, store):
        values = [0.5 + 0.01 * (i % 5) for i in range(30)]
        assert self.answer(store, values, told={"at_least": 0.4}) == {"told ≥ 0.4": "pass"}
        assert self.answer(store, values, told={"at_least": 0.6}) == {"told ≥ 0.6": "fail"}
        assert self.answer(store, values, told={"at_least": 0.521}) == {"told ≥ 0.521": "inconclusive"}
        assert self.answer(store, values, told={"at_most": 0.6}) == {"told ≤ 0.6": "pass"}

    def test_of_the_pass_rate_and_the_composite(self, store):
        values = [0.9] * 60
        answers = self.answer(store, values, pass_rate={"at_least": 0.8}, composite={"at_least": 0.99})
        assert answers == {"pass_rate ≥ 0.8": "pass", "composite ≥ 0.99": "fail"}

    def test_on_what_is_not_there_decides_nothing(self, store):
        assert self.answer(store, [0.5] * 3, cosine={"at_least": 0.1}) == {"cosine ≥ 0.1": "inconclusive"}

    def test_a_level_makes_wider_intervals(self, store):
        values = [0.1 * (i % 10) for i in range(20)]
        narrow = summary_of(store, values, level=0.5).metrics["told"]
        wide = summary_of(store, values, level=0.99).metrics["told"]
        assert wide.ci95[0] < narrow.ci95[0] < narrow.ci95[1] < wide.ci95[1]


class TestComposite:
    def test_recommendation_distance_and_thresholds(self, store):
        weights = tv_composite(
            {"told": 1}, thresholds=Thresholds(accept=0.9, weak_accept=0.7, weak_reject=0.5)
        )
        composite = summary_of(store, [0.6, 0.64], composite=weights).composite
        assert composite.recommendation == "weak_reject"
        assert composite.distance == pytest.approx(0.08)

    def test_recommendations_of_attempts_are_counted_by_name(self, store):
        composite = summary_of(store, [0.9, 0.85, 0.1, 0.45, 0.3, 0.2]).composite
        assert composite.recommendations == {"accept": 2, "weak_reject": 1, "reject": 3}

    def test_probability_of_another_recommendation_is_0_far_from_a_threshold_and_half_on_it(self, store):
        far = summary_of(store, [0.69, 0.7, 0.71] * 10).composite
        near = summary_of(store, [0.55, 0.65] * 15).composite
        # A share p of other cases goes unseen in 30 with (1 - p)^30; 0.7 of the mean must vanish for 0.6.
        assert far.p_change < 2 * (0.6 / 0.7) ** 30
        assert 0.3 < near.p_change < 0.7

    def test_three_equal_values_do_not_rule_out_another_recommendation(self, store):
        equal = summary_of(store, [1.0, 1.0, 1.0]).composite
        assert equal.recommendation == "accept"
        assert equal.p_change == pytest.approx(0.5)  # 0.8³ > 0.5


def test_the_pass_rule_is_the_suites(store):
    values = [0.3, 0.5, 0.7, 0.9]
    assert summary_of(store, values, passed=PassRule(metric="told", at_least=0.8)).passed == 1
    assert summary_of(store, values, passed=PassRule(metric="composite", at_least=0.4)).passed == 3


def test_attempts_without_a_verdict_are_neither_passed_nor_failed(store):
    summary = summary_of(store, [1, "skip", 0])
    assert (summary.passed, summary.failed) == (1, 1)
    assert summary.pass_rate.value == 0.5
    assert any("no pass/fail for 1 of 3 attempts" in warning for warning in summary.warnings)


def test_the_worst_failures_come_first_and_the_rest_is_counted(store):
    values = [i / 1000 for i in range(450)]
    summary = summary_of(store, values)
    assert [failure.case for failure in summary.failures] == [f"q{i}" for i in range(100)]
    assert summary.failures_left_out == 350
    assert summary.failures[0].why == "told 0.000 is under 0.5"


def test_metrics_that_apply_nowhere_are_left_out_and_named_unless_asked_for(store):
    as_usual = {"passed": None, "composite": CompositeSettings()}
    suite = told_suite(2, metrics=None, **as_usual)
    summary = tv.evaluate(suite, agent=Says({"q0": "r", "q1": "s"}), store=store).summary()
    assert "tool_recall" not in summary.metrics
    assert "tool_recall" in summary.left_out
    assert not any("tool_recall" in warning for warning in summary.warnings)
    assert {"time", "planning_rationality"} <= set(summary.metrics)
    named = told_suite(2, metrics=("tool_recall",), **as_usual)
    assert (
        "tool_recall" in tv.evaluate(named, agent=Says({"q0": "r", "q1": "s"}), store=store).summary().metrics
    )


def test_a_summary_shows_itself_as_a_table_at_a_prompt_and_in_a_notebook(store):
    summary = summary_of(store, [0.2, 0.9])
    assert "1 of 2 passed" in str(summary)
    bundle = summary._repr_mimebundle_()
    assert bundle["text/plain"] == str(summary)
    assert bundle["text/html"].startswith("<div")
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(summary)
    assert "1 of 2 passed" in console.export_text()


def recorded(tmp_path, store, **settings):
    """Three questions, two of them answered rightly, in words around the reference."""
    answers = {"Peru": ("Lima", "Lima is the capital."), "Laos": ("Vientiane", "It is Pakse.")}
    answers["France"] = ("Paris", "Paris, of course")
    cases = [{"id": name, "input": f"{name}?", "references": [right]} for name, (right, _) in answers.items()]
    lines = [json.dumps({"case": name, "output": output}) for name, (_, output) in answers.items()]
    (tmp_path / "outputs.jsonl").write_text("\n".join(lines))
    suite = tv.Suite.from_dict({"name": "capitals", "cases": cases} | settings)
    return tv.evaluate(suite, outputs=tmp_path / "outputs.jsonl", store=store).summary()


def test_short_answers_succeed_by_what_they_contain_and_the_report_says_so(tmp_path, store):
    summary = recorded(tmp_path, store, metrics=["success"])
    assert summary.pass_rate.value == pytest.approx(2 / 3)
    assert any("success is 1 where an output contains a reference" in line for line in summary.warnings)
    assert summary.failures[0].why == '"Vientiane" is not in the output "It is Pakse."'
    said = recorded(tmp_path, store, metrics=["success"], success={"contains": "any"})
    assert not any("the suite does not say" in line for line in said.warnings)


@pytest.mark.parametrize(
    "rules",
    [
        {"success": {"metric": "jaccard", "at_least": 0.2}},
        {"gates": {"pass_rate": {"at_least": 0.1}}},
        {"pass": {"metric": "cosine", "at_least": 0.1}},
    ],
    ids=lambda rules: next(iter(rules)),
)
def test_what_decides_is_measured_though_the_suite_does_not_name_it(tmp_path, store, rules):
    summary = recorded(tmp_path, store, metrics=["jaccard"], **rules)
    assert summary.passed + summary.failed == 3
    assert not any("no verdict" in line for line in summary.warnings)


def test_without_a_rule_only_named_metrics_are_measured_and_the_gap_is_reported(tmp_path, store):
    summary = recorded(tmp_path, store, metrics=["jaccard"])
    assert list(summary.metrics) == ["jaccard"]
    assert any(
        "success, which decides it, was not measured; add it to metrics" in w for w in summary.warnings
    )


def at_least_half(case, attempt):
    return float(attempt.text) >= 0.5


def test_a_part_of_the_composite_is_the_figure_of_its_metric(store):
    """With failed attempts and repeats too, and a run's coverage is that of its attempts."""
    weights = {"told": 1.0, "success": 1.0, "semantic": 2.0}
    summary = summary_of(
        store,
        [[0.2, 0.9], [ValueError("x"), 1.0], [0.4, 0.6]],
        repeats=2,
        metrics=(TOLD, "success"),
        success=SuccessRule(predicate="tests.runs.test_summarize:at_least_half"),
        composite=tv_composite(weights),
    )
    parts = summary.composite.parts
    assert parts["success"] == summary.metrics["success"].mean == pytest.approx(0.5)
    assert parts["told"] == summary.metrics["told"].mean
    assert parts["semantic"] is None
    assert summary.composite.coverage == pytest.approx(0.5)


def test_being_fast_is_no_merit_of_a_wrong_answer(tmp_path, store):
    equal = {"weights": dict.fromkeys(COMPOSITE_PARTS, 1.0)}
    metrics = ["success", "time"]
    summary = recorded(tmp_path, store, metrics=metrics, success={"exact": True}, composite=equal)
    assert summary.pass_rate.value == 0.0
    assert summary.composite.recommendation is None
    assert summary.composite.coverage == pytest.approx(1 / 6), "no time was recorded"
    assert "no recommendation: too little was measured, 17 % of the weight" in " ".join(str(summary).split())


def test_a_recommendation_says_on_which_side_of_which_threshold_it_is(store):
    text = " ".join(summary_of(store, [0.44, 0.46] * 15).__str__().split())
    assert "weak reject · 0.050 above the 0.40 threshold ·" in text
    assert "chance that other cases would change this" in text


def test_unit_and_direction_of_a_metric_reach_the_summary_and_stay_with_the_run(tmp_path, monkeypatch):
    (tmp_path / "counting.py").write_text(
        "from trivium import TextMetric, metric\n"
        "@metric('letters')\n"
        "class Letters(TextMetric):\n"
        "    unit = 'letters'\n"
        "    better = 'lower'\n"
        "    def score(self, metric_input):\n"
        "        return self.ok(0.5, raw=len(metric_input.attempt.text))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    url = str(tmp_path / "store.db")
    cases = [{"id": "a", "input": "abc", "references": ["x"]}]
    tv.evaluate(cases, agent=str.upper, metrics=["counting:Letters", "jaccard", "time"], store=url)
    summary = tv.Run.load(store=url).summary()
    shown = {name: (figure.unit, figure.better) for name, figure in summary.metrics.items()}
    assert shown["letters"] == ("letters", "lower")
    assert shown["time"] == ("s", "lower")
    assert shown["jaccard"] == (None, "higher")
    assert summary.metrics["letters"].raw_mean == 3


def test_a_summary_says_where_its_run_comes_from(store):
    summary = tv.evaluate(told_suite(2), agent=Says({"q0": "1", "q1": "0"}), store=store).summary()
    assert summary.metadata["trivium"] == tv.__version__
    assert "Says" in summary.metadata["agent"]
    assert summary.agent.attempts == summary.agent.timed == 2
