"""Tests that the costs of judges are limited, counted and reported."""

import json

import msgspec
import pytest

import trivium as tv
from tests.judge_server import HANG, RESET, at, faults
from tests.runs.judging.suites import MODEL, OTHER, billed, provider, run, suite
from trivium.display import as_text
from trivium.errors import SuiteError
from trivium.reports.summary import render_markdown
from trivium.store.judge_ledger import committed_of
from trivium.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def test_the_ledger_is_what_the_provider_says(store, monkeypatch):
    metrics = ("similarity", "clarity", "constructiveness")
    with provider(monkeypatch, plan=faults(rate_limited=0.2, server_error=0.2, seed=3)) as server:
        summary = run(suite(6, metrics=metrics), store).summary()
        usd, tokens = billed(server)
        requests, answered = len(server.requests), server.counts["answer"]
    spent = summary.spent
    assert (spent.requests, spent.answered + spent.unknown, spent.from_cache) == (requests, answered, 0)
    assert spent.unknown or spent.input_tokens + spent.output_tokens == tokens
    assert spent.cost_usd - 1e-12 <= usd <= spent.cost_usd + spent.unknown_usd + 1e-12
    assert set(spent.models) == {MODEL}
    assert spent.models[MODEL].cost_usd == pytest.approx(spent.cost_usd)
    assert set(spent.dimensions) == {"clarity", "constructiveness"}
    assert sum(share.cost_usd for share in spent.dimensions.values()) == pytest.approx(spent.cost_usd)


def test_tokens_of_answers_that_were_no_use_and_of_models_passed_over_are_counted(store, monkeypatch):
    """The first model only ever answers malformed; the second judges."""
    with provider(monkeypatch, plan=faults(malformed=1.0)) as server:
        server.conditions = msgspec.structs.replace(
            server.conditions, plan=lambda q: faults(malformed=float(q.api == "chat"))(q)
        )
        summary = run(suite(3, models=[MODEL, OTHER]), store).summary()
        usd, tokens = billed(server)
    spent = summary.spent
    assert set(spent.models) == {MODEL, OTHER}
    assert spent.models[MODEL].answered == 12, "each case was asked four times, in three ways, in vain"
    assert spent.models[OTHER].answered == 3
    # What was overdue was asked a second time, and the slower of the two not waited for.
    assert spent.input_tokens + spent.output_tokens <= tokens
    assert spent.cost_usd - 1e-12 <= usd <= spent.cost_usd + spent.unknown_usd + 1e-12


def test_an_exhausted_budget_ends_judging_and_the_policy_decides_on_the_rest(store, monkeypatch):
    with provider(monkeypatch) as server:
        found = run(suite(30, budget_usd=0.004, on_failure="tier1"), store)
        usd, _ = billed(server)
    assert 0.001 < usd <= 0.004
    summary = found.summary()
    status = summary.metrics["clarity"].status
    assert status["ok"] == len(server.requests) > 0
    assert status["fallback"] == 30 - status["ok"]
    (warning,) = [line for line in summary.warnings if line.startswith("clarity was not judged in ")]
    assert "the budget of $0.004 is used up" in warning
    assert summary.spent.budget_usd == 0.004
    assert committed_of(store, found.record)[0] == pytest.approx(summary.spent.cost_usd), (
        "the rest is given back"
    )


def test_one_line_says_that_the_budget_is_used_up(store, monkeypatch, caplog):
    """Whatever the requests are that it does not allow, and whichever rubric they are for."""
    metrics = ("similarity", "clarity", "source_quality", "completeness")
    with provider(monkeypatch):
        run(suite(20, metrics=metrics, together=False, budget_tokens=5_000, max_tokens=900), store)
    messages = [each.message for each in caplog.records if "budget" in each.message]
    assert len(messages) == 1
    assert "the budget of 5,000 tokens is used up" in messages[0]


def test_a_budget_of_tokens_ends_judging_too(store, monkeypatch):
    with provider(monkeypatch) as server:
        summary = run(suite(30, budget_tokens=15_000, on_failure="skip"), store).summary()
        _, tokens = billed(server)
    assert 1000 < tokens <= 15_000
    assert summary.metrics["clarity"].status["skipped"] > 0
    assert "judge.budget_tokens" in " ".join(summary.warnings)


def test_no_other_model_is_asked_when_the_budget_is_used_up(store, monkeypatch):
    with provider(monkeypatch) as server:
        run(suite(3, models=[MODEL, OTHER], budget_usd=0.0), store)
        assert server.requests == []


def test_what_came_to_an_unknown_end_is_charged_at_its_most(store, monkeypatch):
    plan = at({0: HANG, 1: RESET})
    with provider(monkeypatch, plan=plan) as server:
        summary = run(suite(2, timeout=2, concurrency=1), store).summary()
        usd, _ = billed(server)
    spent = summary.spent
    assert spent.unknown == 2
    assert spent.cost_usd == pytest.approx(usd)
    assert spent.unknown_usd > 0
    assert "requests with unknown outcome" in " ".join(as_text(summary).split())


def test_a_model_without_a_price_is_refused_on_a_budget_before_anything_is_asked(store):
    with pytest.raises(SuiteError, match=r'judge.prices: no price of "openai:home-made" is known') as refused:
        run(suite(models=["openai:home-made"], budget_usd=1.0), store)
    assert "prices: {" in str(refused.value)
    assert store.runs() == []


def test_half_a_price_is_refused(store):
    with pytest.raises(SuiteError, match="judge.prices.openai:gpt-4o-mini: output is missing"):
        run(suite(prices={MODEL: {"input": 1}}), store)


def test_without_a_price_or_a_budget_tokens_are_reported_and_the_cost_is_unknown(store, monkeypatch):
    with provider(monkeypatch) as server:
        summary = run(suite(models=["openai:home-made"], prices={}), store).summary()
        tokens = sum(len(question.prompt) // 4 for question in server.requests)
    assert summary.spent.cost_usd is None
    assert summary.spent.input_tokens == tokens
    assert "cost unknown" in as_text(summary)


def test_every_report_shows_what_was_spent(store, tmp_path, monkeypatch):
    from trivium.cli.main import run_command

    with provider(monkeypatch):
        found = run(suite(models=[MODEL], budget_usd=1.5), store)
    summary = found.summary()
    expected = f"${summary.spent.cost_usd:.4f} of $1.50 · 4 requests, 4 answered"
    assert expected in " ".join(as_text(summary).split())
    assert expected.replace("$", r"\$") in render_markdown(summary)
    html = tmp_path / "report.html"
    assert run_command(["show", "--store", store.url, "--html", str(html), "--quiet"]) == 0
    page = html.read_text()
    assert expected in page
    assert "Cost of judges" in page
    assert msgspec.to_builtins(summary)["spent"]["models"][MODEL]["requests"] == 4


def test_the_suite_file_of_the_specification_runs_as_it_is_written(tmp_path, monkeypatch):
    """Two models, a budget in USD at listed prices, process dimensions, composite and gates."""
    ids = ["a", "b", "c"]
    cases = [
        {"id": i, "input": f"Review {i}.", "references": [f"{i} is sound"], "metadata": {"paper_id": i}}
        for i in ids
    ]
    step = {"id": "s", "kind": "agent", "name": "manager", "start": 0.0, "end": 3.0}
    call = {"id": "t", "parent": "s", "kind": "tool", "name": "search", "start": 1.0, "end": 2.0}
    outputs = [
        {
            "case": i,
            "output": f"{i} is sound",
            "seconds": 3.0,
            "trace": {"trace_id": i, "spans": [step, call]},
        }
        for i in ids
    ]
    for name, lines in (("cases.jsonl", cases), ("outputs.jsonl", outputs)):
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "reviews.yaml").write_text(SPECIFIED)
    with provider(monkeypatch) as server, Store(str(tmp_path / "s.db")) as store:
        found = tv.evaluate(tmp_path / "reviews.yaml", outputs=tmp_path / "outputs.jsonl", store=store)
        summary = found.summary()
        assert len(server.requests) == 3
    assert summary.metrics["planning_rationality"].status == {"ok": 3}
    assert 0 < summary.spent.cost_usd < 0.01
    assert summary.spent.budget_usd == 2.0
    assert summary.composite.mean is not None
    assert [gate.gate for gate in summary.gates]


SPECIFIED = """\
name: paper-reviews
cases: cases.jsonl            # or a list here; or  peerread: path/to/acl_2017
group: paper_id               # clusters for the intervals
repeats: 1
metrics: [similarity, success, time, tool_efficiency, coordination_quality, planning_rationality]
judge:
  models: [openai:gpt-4o-mini, anthropic:claude-haiku-4-5]
  rubric: review              # built in: review, agent; or a file
  samples: 1
  excerpt_chars: 2000
  budget_usd: 2.00
  on_failure: tier1           # or skip, fail
success: {metric: similarity, at_least: 0.8}
composite: {weights: {time: 0.167, success: 0.167}, missing: rescale}
gates: {composite: {at_least: 0.6}, pass_rate: {at_least: 0.85}}
"""
