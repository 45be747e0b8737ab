"""Tests that an error common to all requests stops a model early, and that another model judges."""

import pytest

from tests.judge_server.faults import ANSWER, Reaction, failure
from tests.runs.judging.suites import MODEL, OTHER, provider, run, suite
from trivium.metrics.judge.client.pydantic_ai_models import why_unavailable
from trivium.store.store import Store

CASES, AT_ONCE = 30, 3
QUOTA = b'{"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "param": null, "code": "insufficient_quota"}}'  # noqa: E501 - as OpenAI writes it
NO_MODEL = b'{"error": {"message": "my/model is not a valid model ID", "code": 400}}'


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def told(status, body):
    """A failure with a body of its own."""
    return Reaction(kind="failure", status=status, body=body)


@pytest.mark.parametrize(
    ("reaction", "words"),
    [
        (failure(401, message="no such key"), "HTTP 401: no such key"),
        (failure(404, message="no such thing"), "HTTP 404: no such thing"),
        (failure(402, message="Insufficient credits"), "HTTP 402: Insufficient credits"),
        (told(429, QUOTA), "HTTP 429: You exceeded your current quota (insufficient_quota)"),
        (told(400, NO_MODEL), "HTTP 400: my/model is not a valid model ID"),
    ],
    ids=["401", "404", "402", "quota", "model"],
)
@pytest.mark.parametrize("cost", [{}, {"budget_usd": 1.0}], ids=["free", "budget"])
def test_an_error_that_is_the_same_for_all_is_not_met_with_every_case(
    monkeypatch, caplog, store, reaction, words, cost
):
    with provider(monkeypatch, plan=lambda _: reaction) as server:
        found = run(suite(CASES, concurrency=AT_ONCE, **cost), store)
    assert server.counts["requests"] <= AT_ONCE
    assert caplog.text.count(f"the judge {MODEL} is off: gpt-4o-mini: {words}") == 1
    summary = found.summary()
    assert "ok" not in summary.metrics["clarity"].status
    assert summary.spent.unknown_usd == 0, "what was turned away is not billed"


def test_a_403_may_be_about_one_text_and_the_third_in_a_row_is_not(monkeypatch, store):
    with provider(monkeypatch, plan=lambda q: failure(403) if "paper 1." in q.prompt else ANSWER) as server:
        one = run(suite(CASES, concurrency=1), store)
    assert one.summary().metrics["clarity"].status["ok"] == CASES - 1
    with provider(monkeypatch, plan=lambda _: failure(403, message="not in your country")) as server:
        run(suite(CASES, concurrency=1, cache=False), store)
    assert server.counts["requests"] == 3


def test_credits_that_run_out_midway_stop_the_model(monkeypatch, caplog, store):
    with provider(monkeypatch, plan=lambda q: ANSWER if q.number < 5 else failure(402)) as server:
        found = run(suite(CASES, concurrency=AT_ONCE), store)
    assert server.counts["requests"] <= 5 + 10 + AT_ONCE
    assert found.summary().metrics["clarity"].status["ok"] == 5
    assert caplog.text.count("is off") == 1


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
    assert found.summary().metrics["clarity"].status["ok"] == 2 * CASES // 3


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("opnai:gpt-4o", 'no provider is called "opnai". Did you mean "openai"?'),
        ("antropic:claude-haiku-4-5", 'no provider is called "antropic". Did you mean "anthropic"?'),
        ("gpt", '"gpt" names no provider: expected provider:model, such as openai:gpt-4o-mini'),
    ],
)
def test_a_misspelt_model_names_the_nearest_provider(name, why):
    assert why_unavailable(name) == why
