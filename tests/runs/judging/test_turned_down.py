"""A provider that knows neither key nor model is asked no more, and another model judges."""

import pytest

from tests.judge_server.faults import ANSWER, failure
from tests.runs.judging.suites import MODEL, OTHER, provider, run, suite
from trivium.metrics.judge.models.opening import why_off
from trivium.store.store import Store

CASES, AT_ONCE = 30, 3


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


@pytest.mark.parametrize("status", [401, 404])
@pytest.mark.parametrize("cost", [{}, {"budget_usd": 1.0}], ids=["free", "budget"])
def test_a_wrong_key_or_model_is_not_tried_with_every_case(monkeypatch, caplog, store, status, cost):
    with provider(monkeypatch, plan=lambda _: failure(status, message="no such thing")) as server:
        found = run(suite(CASES, concurrency=AT_ONCE, **cost), store)
    assert server.counts["requests"] <= AT_ONCE
    assert caplog.text.count(f"the judge {MODEL} is off: gpt-4o-mini") == 1
    summary = found.summary()
    assert summary.metrics["clarity"].status == {"fallback": CASES}
    assert any("no such thing" in line for line in summary.warnings)
    assert summary.spent.unknown_usd == 0, "what was turned away is not billed"


def test_the_next_model_judges_in_its_place(monkeypatch, caplog, store):
    def plan(question):
        return failure(404) if question.api == "chat" else ANSWER

    with provider(monkeypatch, plan=plan) as server:
        found = run(suite(CASES, models=[MODEL, OTHER], concurrency=AT_ONCE), store)
    assert found.summary().metrics["clarity"].status == {"ok": CASES}
    assert server.counts["requests"] <= CASES + AT_ONCE
    assert OTHER in next(store.evaluations(found.record)).evaluation.scores["clarity"].detail["model"]
    assert f"the judge {MODEL} is off" in caplog.text


def test_one_that_has_answered_before_is_not_given_up_for_one_refusal(monkeypatch, store):
    with provider(monkeypatch, plan=lambda q: failure(401) if q.number % 3 == 2 else ANSWER) as server:
        found = run(suite(CASES, concurrency=1), store)
    assert server.counts["requests"] == CASES
    assert found.summary().metrics["clarity"].status == {"ok": 2 * CASES // 3, "fallback": CASES // 3}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("opnai:gpt-4o", 'no provider is called "opnai". Did you mean "openai"?'),
        ("antropic:claude-haiku-4-5", 'no provider is called "antropic". Did you mean "anthropic"?'),
        ("gpt", '"gpt" names no provider: expected provider:model, such as openai:gpt-4o-mini'),
    ],
)
def test_a_misspelt_model_names_the_nearest_provider(name, why):
    assert why_off(name) == why
