"""Judged suites with workers: they compute texts and traces, and the process of the run asks the judges."""

import json
import os
from collections import Counter

import msgspec
import pytest

import trivium as tv
from tests.judge_server import Reaction, at, failure
from tests.runs import worker_metrics
from tests.runs.judging.suites import MODEL, billed, provider, suite
from tests.runs.worker_metrics import FATAL
from trivium.metrics.registry import REGISTERED, build_metrics
from trivium.runs.engines import processes
from trivium.runs.engines.workers import Workers
from trivium.store.judge_cache import cache_size
from trivium.store.store import Store

CASES, AT_ONCE = 60, 5
PART_ATTEMPTS = 40
ODD = "tests.runs.worker_metrics"


@pytest.fixture(autouse=True)
def _short_parts(monkeypatch):
    monkeypatch.setattr("trivium.records.source.PART_RECORDS", PART_ATTEMPTS)


@pytest.fixture(autouse=True)
def _no_more_metrics_than_before():
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


def outputs(count=CASES):
    return [{"case": f"c{index}", "output": f"Review {index}. It is sound."} for index in range(count)]


def scored(folder, name, **options):
    """A run, and its scores without what differs from time to time."""
    own = suite(CASES, concurrency=AT_ONCE)
    run = tv.evaluate(own, outputs=outputs(), store=f"{folder}/{name}.db", **options)
    return run, comparable(run)


def comparable(run):
    """The scores of a run; when an answer came, and so how long it took, differs from time to time."""
    found = []
    for each in run.evaluations():
        scores = msgspec.to_builtins(each.scores)
        for score in scores.values():
            score.get("detail", {}).pop("latency_seconds", None)
        found.append((each.case, scores, each.passed, each.composite.value))
    return found


def judgements(scores):
    """Without what an answer took, which is nothing where it comes from the cache."""
    kept = ("value", "status", "raw", "reason")
    return [
        (case, {name: [score.get(key) for key in kept] for name, score in found.items()}, *rest)
        for case, found, *rest in scores
    ]


def figures(run):
    """The summary of a run, without what differs from time to time."""
    summary = dict(run.record.summary or {})
    return {
        name: value for name, value in summary.items() if name not in {"run", "created", "seconds", "spent"}
    }


def test_scores_and_costs_are_those_of_one_process(tmp_path, monkeypatch):
    """Also in partitions, which the process of the run writes."""
    seen = {}
    for name, options in (("one", {}), ("two", {"workers": 2, "partitions": f"{tmp_path}/parts"})):
        with provider(monkeypatch) as server:
            run, scores = scored(tmp_path, name, **options)
        spent = run.summary().spent
        assert spent.cost_usd == pytest.approx(billed(server)[0])
        assert server.peak_in_flight <= AT_ONCE
        seen[name] = scores, figures(run), server.counts["requests"], spent.requests, round(spent.cost_usd, 9)
    assert seen["two"] == seen["one"]
    assert seen["two"][2] == CASES
    assert len(list(tmp_path.glob("parts/*/part-*.parquet"))) == 1


def test_stored_attempts_are_judged_alike(tmp_path, monkeypatch):
    with provider(monkeypatch) as server:
        base, scores = scored(tmp_path, "one")
        given = {"attempts_of": base.id, "store": f"{tmp_path}/one.db"}
        again = tv.evaluate(suite(CASES, concurrency=AT_ONCE), workers=2, **given)
        assert server.counts["requests"] == CASES, "all answers are in the cache"
    assert judgements(comparable(again)) == judgements(scores)


def test_workers_score_texts_and_the_run_what_only_it_can(tmp_path, monkeypatch):
    """A metric that needs a judgement follows it, and one of a notebook cannot be found elsewhere."""
    monkeypatch.setattr(worker_metrics.Here, "__module__", "__main__")
    metrics = (f"{ODD}:Place", "clarity", f"{ODD}:AfterClarity", f"{ODD}:Here")
    with provider(monkeypatch), Store(f"{tmp_path}/one.db") as store:
        own = suite(2, metrics=metrics)
        run = tv.evaluate(own, outputs=outputs(2), store=store, workers=2)
    for each in run.evaluations():
        assert list(each.scores) == ["place", "cosine", "similarity", "clarity", "after_clarity", "here"]
        assert each.scores["place"].raw != os.getpid()
        assert each.scores["after_clarity"].raw == each.scores["here"].raw == os.getpid()
        assert each.scores["after_clarity"].value == each.scores["clarity"].value


@pytest.mark.cpu(12, "five workers start, as an attempt ends them")
def test_a_worker_that_is_lost_costs_no_judgement(tmp_path, monkeypatch):
    """Its part is scored again; the attempt that ends every worker lacks what workers compute."""
    cases = [{"id": str(n), "input": f"Review paper {n}.", "references": ["sound"]} for n in range(CASES)]
    given = [{"case": str(n), "output": f"Review {n}. It is sound."} for n in range(CASES)]
    metrics = ["clarity", f"{ODD}:Deadly"]
    own = {"name": "lost", "cases": cases, "metrics": metrics, "judge": {"models": [MODEL]}}
    with provider(monkeypatch) as server:
        run = tv.evaluate(tv.Suite.from_dict(own), outputs=given, store=f"{tmp_path}/lost.db", workers=2)
    prompts = Counter(question.prompt for question in server.requests)
    assert len(prompts) == CASES
    assert max(prompts.values()) == 1
    lost = [each.case for each in run.evaluations() if each.scores["deadly"].status == "error"]
    assert set(lost) == FATAL
    assert {each.scores["clarity"].status for each in run.evaluations()} == {"ok"}


def test_a_model_that_cannot_be_asked_is_named_once(tmp_path, monkeypatch, caplog):
    with provider(monkeypatch, plan=lambda _: failure(401, message="no such key")) as server:
        run, _ = scored(tmp_path, "two", workers=2)
    assert server.counts["requests"] <= AT_ONCE
    assert caplog.text.count(f"the judge {MODEL} is off: gpt-4o-mini: HTTP 401: no such key") == 1
    assert run.summary().metrics["clarity"].status["fallback"] == CASES


def test_a_budget_that_is_used_up_is_held_and_named_once(tmp_path, monkeypatch, caplog):
    budget = 0.005
    with provider(monkeypatch) as server:
        run = tv.evaluate(
            suite(CASES, budget_usd=budget), outputs=outputs(), store=f"{tmp_path}/a.db", workers=2
        )
    assert 0 < billed(server)[0] <= budget
    assert 0 < server.counts["requests"] < CASES
    assert caplog.text.count(f"the budget of ${budget} is used up") == 1
    assert run.summary().attempts == CASES


def test_without_a_number_a_judged_run_starts_no_worker():
    settings = suite(2).settings
    metrics = build_metrics(["clarity", "similarity"], settings)
    there = processes.leaving(metrics, settings)
    assert [each.name for each in there] == ["cosine", "similarity"]
    assert processes.process_count(4, metrics, there) == 4
    assert processes.process_count(None, metrics, there) == 1, "a judged run waits for its provider"


def test_where_workers_have_nothing_to_do_none_starts(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(Workers, "scored", None)
    own = suite(2, metrics=("clarity",), on_failure="skip")
    with provider(monkeypatch):
        run = tv.evaluate(own, outputs=outputs(2), store=f"{tmp_path}/one.db", workers=2)
    assert run.summary().metrics["clarity"].status == {"ok": 2}
    assert "only the main process can compute clarity: no workers are started" in caplog.messages


def test_a_failure_that_utf_8_cannot_hold_is_stored(tmp_path, monkeypatch):
    """A provider's text may have a lone surrogate, as JSON escapes allow."""
    refusal = Reaction(kind="failure", status=401, body=rb'{"error": {"message": "no such \ud800 key"}}')
    with provider(monkeypatch, plan=lambda _: refusal):
        run = tv.evaluate(suite(1), outputs=outputs(1), store=f"{tmp_path}/one.db")
    (score,) = [each.scores["clarity"] for each in run.evaluations()]
    assert score.status == "fallback"
    assert "no such \ufffd key" in score.reason


def test_an_answer_that_utf_8_cannot_hold_is_stored_and_asked_again(tmp_path, monkeypatch):
    message = {"role": "assistant", "content": "no JSON \ud800"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    chat = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    garbled = Reaction(kind="garbled", body=json.dumps(chat).encode())
    with provider(monkeypatch, plan=at({0: garbled})) as server, Store(f"{tmp_path}/one.db") as store:
        run = tv.evaluate(suite(1), outputs=outputs(1), store=store)
        assert [each.scores["clarity"].status for each in run.evaluations()] == ["ok"]
        assert cache_size(store).answers == len(server.requests) == 2


def test_no_worker_starts_where_a_run_is_judged_until_it_is_decided(tmp_path, monkeypatch):
    monkeypatch.setattr(Workers, "scored", None)
    own = suite(30, metrics=("clarity",), concurrency=1).with_settings(
        until_decided=True, gates={"clarity": {"at_least": 0.3}}
    )
    with provider(monkeypatch), Store(f"{tmp_path}/one.db") as store:
        run = tv.evaluate(own, outputs=outputs(30), store=store, workers=2)
    assert run.summary().gates[0].answer == "pass"
