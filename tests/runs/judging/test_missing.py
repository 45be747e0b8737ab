"""Tests that missing scores decide nothing and are reported."""

import json
from xml.etree import ElementTree

import pytest

from tests.judge_server.faults import ANSWER, failure
from tests.runs.judging.suites import provider, run, suite
from trivium.cli.main import run_command
from trivium.cli.output import exit_code
from trivium.display import as_text
from trivium.reports.summary import render_markdown
from trivium.runs.case_values import Clusters
from trivium.runs.columns import Column
from trivium.store.store import Store
from trivium.suites.suite import Suite

CASES, JUDGED = 40, 10


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


@pytest.fixture
def _no_key(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def gated(
    cases: int = CASES, *, on_failure: str = "tier1", metrics=("similarity", "clarity"), **settings
) -> Suite:
    """A judged suite whose similarity is far above what the judge says."""
    made = suite(cases, metrics=metrics, on_failure=on_failure, concurrency=1)
    return made.with_settings(**settings)


def credits_for(judged: int):
    """A provider whose credits end after so many requests."""
    return lambda question: ANSWER if question.number < judged else failure(402, message="no credits")


@pytest.mark.parametrize("policy", ["tier1", "skip", "fail"])
def test_a_gate_does_not_pass_where_most_judgements_are_missing(monkeypatch, store, tmp_path, policy):
    """Whatever stands in for them: the judge scores 10 of 40, the credits are used up for the others."""
    gates = {"clarity": {"at_least": 0.4}}
    with provider(monkeypatch, plan=credits_for(JUDGED)):
        found = run(gated(on_failure=policy, gates=gates), store)
    summary = found.summary()
    figure, (gate,) = summary.metrics["clarity"], summary.gates
    judged = [each.scores["clarity"] for each in found.evaluations() if each.scores["clarity"].status == "ok"]
    assert figure.n == len(judged) == JUDGED
    assert figure.mean == pytest.approx(sum(score.value for score in judged) / JUDGED)
    assert (figure.coverage, figure.missing) == (JUDGED / CASES, CASES - JUDGED)
    assert summary.dimension_averages["clarity"] == figure.mean
    assert (gate.answer, gate.missing, gate.due) == ("inconclusive", CASES - JUDGED, CASES)
    assert gate.worst[0] < 0.4 < gate.best[0]
    assert exit_code(summary) == 3
    for text in (as_text(summary, width=4000), render_markdown(summary).replace("\\", "")):
        line = next(line for line in text.splitlines() if "clarity ≥ 0.4" in line)
        assert f"{CASES - JUDGED} of {CASES} missing" in line
        assert "no credits" in line
    junit = tmp_path / "junit.xml"
    assert run_command(["show", found.id, "--store", store.url, "--quiet", "--junit", str(junit)]) == 3
    (skipped,) = ElementTree.parse(junit).findall(".//testcase[@classname='gates']/skipped")
    assert f"{CASES - JUDGED} of {CASES} missing" in skipped.get("message")


def test_fallbacks_have_a_mean_of_their_own(monkeypatch, store):
    with provider(monkeypatch, plan=credits_for(JUDGED)):
        found = run(gated(), store)
    stood_in = [
        each.scores["similarity"].value
        for each in found.evaluations()
        if each.scores["clarity"].status == "fallback"
    ]
    summary = found.summary()
    aside = summary.metrics["clarity"].aside
    assert (aside.method, aside.n) == ("similarity", CASES - JUDGED)
    assert aside.mean == pytest.approx(sum(stood_in) / len(stood_in))
    assert f"similarity as fallback for {CASES - JUDGED} of {CASES}: {aside.mean:.3f}" in as_text(
        summary, width=400
    )


@pytest.mark.usefixtures("_no_key")
class TestWithoutAKey:
    def test_no_gate_on_a_judged_metric_is_decided(self, store):
        gates = {"clarity": {"at_least": 0.01}, "agent.overall": {"at_least": 0}}
        summary = run(gated(metrics=("similarity", "clarity", "agent"), gates=gates), store).summary()
        assert [(gate.answer, gate.value) for gate in summary.gates] == [("inconclusive", None)] * 2
        assert all(f"{CASES} of {CASES} missing" in as_text(summary, width=4000) for _ in summary.gates)
        assert summary.metrics["clarity"].mean is None
        assert "clarity" not in summary.dimension_averages
        assert (summary.passed, summary.failed) == (0, 0), "the rubric decides, and nothing of it was judged"
        assert summary.pass_rate.value is None

    def test_ignoring_what_is_missing_leaves_the_gate_without_a_value_and_the_code_as_it_is(self, store):
        gates = {"clarity": {"at_least": 0.01, "missing": "ignore"}, "similarity": {"at_least": 0}}
        summary = run(gated(gates=gates), store).summary()
        assert [gate.answer for gate in summary.gates] == ["inconclusive", "pass"]
        assert "left out (missing: ignore)" in as_text(summary, width=4000)
        assert exit_code(summary) == 3

    @pytest.mark.parametrize("policy", ["tier1", "skip"])
    def test_success_and_pass_rate_by_a_judged_metric_are_missing_too(self, store, policy):
        settings = {
            "success": {"metric": "clarity", "at_least": 0.1},
            "gates": {"pass_rate": {"at_least": 0.1}},
            "metrics": ["similarity", "clarity", "success"],
        }
        summary = run(gated(on_failure=policy, **settings), store).summary()
        assert summary.metrics["success"].mean is None
        assert summary.gates[0].answer == "inconclusive"
        assert summary.gates[0].missing == CASES
        assert "OPENAI_API_KEY is not set" in summary.gates[0].why

    def test_a_gate_on_the_composite_is_inconclusive_as_far_as_fallbacks_could_move_it(self, store):
        weights = {"weights": {"clarity": 3, "similarity": 1}}
        gates = {"composite": {"at_least": 0.2}}
        summary = run(gated(composite=weights, gates=gates), store).summary()
        (gate,) = summary.gates
        assert (gate.answer, gate.missing) == ("inconclusive", CASES)
        assert summary.composite.coverage == pytest.approx(0.25)
        assert summary.composite.parts["clarity"] is None
        assert summary.composite.recommendation is None
        assert "fallback" in summary.composite.status
        weights = {"weights": {"clarity": 1, "similarity": 99}}
        assert run(gated(composite=weights, gates=gates), store).summary().gates[0].answer == "pass"

    @pytest.mark.parametrize("policy", ["tier1", "skip", "fail"])
    def test_a_quiet_command_says_it_in_one_line_and_ends_with_3(self, store, tmp_path, capfd, policy):
        made = gated(6, on_failure=policy)
        made.save(tmp_path / "suite.json")
        lines = [{"case": case.id, "output": "A review."} for case in made]
        outputs = tmp_path / "outputs.jsonl"
        outputs.write_text("".join(json.dumps(line) + "\n" for line in lines))
        command = ["score", str(tmp_path / "suite.json"), "--outputs", str(outputs), "--store", store.url]
        assert run_command([*command, "--quiet"]) == 3
        captured = capfd.readouterr()
        assert captured.out == ""
        (line,) = [line for line in captured.err.splitlines() if "6 attempts of 6 cases" in line]
        assert "OPENAI_API_KEY is not set" in line


def test_a_gate_passes_that_does_so_however_what_is_missing_would_have_come_out(monkeypatch, store):
    with provider(monkeypatch, plan=credits_for(CASES - 1)):
        summary = run(gated(gates={"clarity": {"at_least": 0.05}}), store).summary()
    (gate,) = summary.gates
    assert (gate.answer, gate.missing) == ("pass", 1)
    assert gate.worst[0] >= 0.05
    assert exit_code(summary) == 3, "one judgement is missing all the same"


def test_a_missing_attempt_is_missing_from_every_gate(store, tmp_path):
    made = Suite.from_dict(
        {
            "name": "recorded",
            "cases": [{"id": f"c{i}", "input": "?", "references": ["yes it is"]} for i in range(20)],
            "metrics": ["jaccard"],
            "gates": {"jaccard": {"at_least": 0.9}},
        }
    )
    outputs = tmp_path / "outputs.jsonl"
    outputs.write_text("".join(f'{{"case": "c{i}", "output": "yes it is"}}\n' for i in range(12)))
    import trivium as tv

    found = tv.evaluate(made, outputs=outputs, store=store)
    (gate,) = found.summary().gates
    assert (gate.answer, gate.missing, gate.due) == ("inconclusive", 8, 20)
    assert gate.why == "the attempt is missing"
    assert gate.ci95[0] < 0.9 or gate.worst[1] < 0.9


def scored(status: str, value: float | None, **fields):
    from trivium.metrics.metric import Score

    return Score(name="m", tier=fields.pop("tier", "text"), status=status, value=value, **fields)


def column_of(*scores, tier="text"):
    clusters = Clusters()
    clusters.extend(range(len(scores)))
    column = Column("m", tier, clusters)
    column.add(list(range(len(scores))), scores)
    return column


def test_values_of_fewer_parts_are_not_mixed_with_those_of_all():
    """Similarity with its encoder is one quantity, without it another."""
    figure = column_of(
        scored("ok", 0.2), scored("fallback", 0.8), scored("ok", 0.4), scored("fallback", 1.0)
    ).figure(level=0.95)
    assert figure.mean == pytest.approx(0.3)
    assert (figure.n, figure.coverage, figure.missing) == (2, 0.5, 0)
    assert (figure.aside.n, figure.aside.mean) == (2, pytest.approx(0.9))
    alone = column_of(scored("fallback", 0.8), scored("fallback", 0.6)).figure(level=0.95)
    assert (alone.mean, alone.n, alone.aside) == (pytest.approx(0.7), 2, None)


def test_the_zero_of_a_failed_attempt_belongs_to_either_way():
    clusters = Clusters()
    clusters.extend(range(3))
    column = Column("success", "text", clusters)
    scores = [scored("ok", 0.0), scored("fallback", 1.0), scored("fallback", 1.0)]
    column.add([0, 1, 2], scores, failed=[True, False, False])
    assert column.mean == pytest.approx(2 / 3)
    assert column.aside is None


def test_the_worst_and_the_best_are_those_of_the_cases_filled_up():
    """Oracle: the interval of the values with 0, and with 1, in place of what is missing."""
    values = [0.5, 0.6, 0.55, 0.7, 0.52, 0.61]
    gaps = [
        scored("error", None),
        scored("abstained", None, tier="judge"),
        scored("skipped", None, missing=True),
    ]
    column = column_of(*[scored("ok", value) for value in values], *gaps)
    worst, best = (mean.interval(0.95) for mean in column.extreme_means())
    for found, filling in ((worst, 0.0), (best, 1.0)):
        expected = column_of(*[scored("ok", value) for value in [*values, *[filling] * 3]]).interval(0.95)
        assert (found.low, found.high) == (expected.low, expected.high)
    assert column.missing == 3
    assert column.unavailable == 2, "an abstention is an answer"
    assert column_of(scored("ok", 0.5), scored("skipped", None)).missing == 0, (
        "what does not apply is not due"
    )
