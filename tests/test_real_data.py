"""Real data from file to stored run, against figures that others worked out."""

import json
from collections import Counter

import pytest

import trivium as tv
from tests.goldens import data


def test_people_s_reviews_reach_what_was_measured(tmp_path, minilm_folder):
    """Mean similarity .368 and at best .421 over the 17 reviews that have another beside them."""
    source = f"peerread:{data('peerread/acl_2017')}"
    suite = tv.Suite.load(source, encoder=str(minilm_folder))
    run = tv.evaluate(
        suite,
        outputs=source,
        leave_one_out=True,
        metrics=["similarity"],
        store=str(tmp_path / "store.db"),
    )
    values = [one.scores["similarity"].value for one in run.evaluations()]
    assert len(values) == 17
    assert {one.scores["similarity"].status for one in run.evaluations()} == {"ok"}
    assert round(max(values), 3) == 0.421
    assert round(sum(values) / 17, 3) == 0.368
    summary = run.summary()
    assert summary.metrics["similarity"].n == 17
    assert max(values) < 0.8, "the usual threshold lies far above what people reach"


def test_the_trajectories_of_tau_bench_give_the_published_rates(tmp_path):
    source = f"tau-bench:{data('traces/tau-bench/gpt-4o-airline_tasks_00-32.json')}"
    run = tv.evaluate(source, outputs=source, store=str(tmp_path / "store.db"))
    summary = run.summary()
    assert (summary.cases, summary.attempts, summary.missing) == (33, 132, 0)
    rates = [round(summary.metrics[f"pass^{k}"].mean, 3) for k in (1, 2, 3, 4)]
    assert rates == [0.303, 0.167, 0.129, 0.121]
    evaluations = list(run.evaluations())
    agreeing = [
        one.scores["action_match"].value == attempt.reward
        for one, attempt in zip(evaluations, run.attempts(), strict=True)
    ]
    assert Counter(agreeing) == {True: 130, False: 2}
    calls = [len(attempt.trace.tool_calls) for attempt in run.attempts()]
    assert (sum(calls), min(calls), max(calls)) == (895, 0, 27)


def test_every_run_of_agents_eval_is_stored_with_its_counts(tmp_path):
    folder = data("traces/agents-eval")
    source = f"agents-eval:{folder}"
    expected = json.loads((folder / "expected.json").read_text())
    run = tv.evaluate(source, outputs=source, store=str(tmp_path / "store.db"))
    attempts = {attempt.case: attempt for attempt in run.attempts()}
    assert len(attempts) == run.summary().attempts == 24 + 3
    with_claude_code = {case: attempt for case, attempt in attempts.items() if case.startswith("cc/")}
    for case, attempt in with_claude_code.items():
        assert len(attempt.trace.tool_calls) == sum(expected[case]["tool_uses"].values())
    for case in attempts.keys() - with_claude_code.keys():
        counts, attempt = expected[case], attempts[case]
        trace = attempt.trace
        spoken = Counter(
            (message.sender, message.receiver)
            for message in trace.messages
            if message.type in {"task_request", "delegation"}
        )
        assert len(trace.tool_calls) == counts["tool_calls"]
        assert sum(span.ok is False for span in trace.tool_calls) == counts["failed_tools"]
        assert sorted(trace.agents) == sorted(counts["agents"])
        assert sorted([sender, receiver, n] for (sender, receiver), n in spoken.items()) == sorted(
            counts["agent_to_agent"]
        )
        assert attempt.seconds == pytest.approx(counts["true_duration"], abs=1e-6)
    scores = {one.case: one.scores for one in run.evaluations()}
    alone = [
        case
        for case, counts in expected.items()
        if case in scores and case not in with_claude_code and len(counts["agents"]) == 1
    ]
    assert {scores[case]["task_balance"].value for case in alone} == {1.0}
    assert {scores[case]["coordination_quality"].status for case in alone} == {"skipped"}
