"""Tests the cost of failed requests: billed, not billed or unknown, by the kind of failure."""

import socket

import msgspec
import pytest

from tests.judge_server import CUT, GARBLED, HANG, RESET, at, failure
from tests.judge_server.answer import Answer
from tests.metrics.judge.asked import clarity
from tests.runs.judging.suites import MODEL, OTHER, PRICES, provider, run, suite
from trivium.store.store import Store

USUAL = "openai-responses:gpt-4o-mini"
"""Asked through PydanticAI, the others over the direct client."""

MODELS = [MODEL, USUAL]
ALL_PRICES = PRICES | {USUAL: PRICES[MODEL]}


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def spent(store, model, *, hangs=False, **judge):
    """What a suite of one case spent."""
    asked = {"models": [model], "prices": ALL_PRICES, "timeout": 3 if hangs else 60, "on_failure": "skip"}
    return run(suite(1, **asked | judge), store).summary().spent


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "fault",
    [failure(500), failure(503, retry_after=0), failure(529, retry_after=0), failure(429, retry_after=0)],
    ids=str,
)
def test_an_error_that_the_provider_reports_costs_nothing(store, monkeypatch, model, fault):
    with provider(monkeypatch, plan=at({0: fault})):
        found = spent(store, model)
    assert (found.requests, found.answered, found.unknown) == (2, 1, 0)
    assert found.unknown_usd == 0
    assert found.cost_usd > 0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_request_that_is_turned_away_costs_nothing(store, monkeypatch, model, status):
    with provider(monkeypatch, plan=lambda _: failure(status)):
        found = spent(store, model)
    assert (found.requests, found.answered, found.unknown, found.unknown_usd) == (1, 0, 0, 0)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "fault",
    [RESET, CUT, HANG, GARBLED, *(failure(status) for status in (408, 499, 502, 504, 520, 524))],
    ids=str,
)
def test_an_unknown_cost_is_charged_at_its_maximum(store, monkeypatch, model, fault):
    """One request is answered after it, so that exactly one has the unknown end."""
    with provider(monkeypatch, plan=at({0: fault})):
        found = spent(store, model, max_tokens=1000, hangs=fault is HANG)
    assert (found.requests, found.answered, found.unknown) == (2, 1, 1)
    assert found.unknown_tokens > 1000
    price = ALL_PRICES[model]
    assert found.unknown_usd > 1000 * price["output"] / 1e6
    assert found.unknown_usd == pytest.approx(
        ((found.unknown_tokens - 1001) * price["input"] + 1001 * price["output"]) / 1e6
    )


@pytest.mark.parametrize("model", [*MODELS, OTHER])
def test_a_connection_that_is_refused_costs_nothing(store, monkeypatch, model):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-not-a-secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-not-a-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{port}")
    found = spent(store, model)
    assert found.requests > 1
    assert (found.answered, found.unknown, found.unknown_usd) == (0, 0, 0)


@pytest.mark.filterwarnings("ignore:Failed to extract usage")  # PydanticAI says so itself
@pytest.mark.parametrize("usage", [(0, 0), (50, 0), (50, -(10**9)), (10**30, 5)], ids=str)
@pytest.mark.parametrize("model", [*MODELS, OTHER])
def test_an_answer_that_does_not_say_what_it_took_is_charged_at_its_most(store, monkeypatch, model, usage):
    """Or else a provider that counts nothing, or less than nothing, would make a budget endless."""
    response = Answer(output=clarity(4), usage=usage)
    with provider(monkeypatch, answer=lambda _: response) as server:
        found = run(
            suite(
                30, models=[model], prices=ALL_PRICES, budget_tokens=20_000, max_tokens=1000, concurrency=1
            ),
            store,
        )
        asked = len(server.requests)
    spending = found.summary().spent
    assert 0 < asked < 20
    assert spending.answered == spending.unknown == asked
    assert 1000 * asked < spending.unknown_tokens <= 20_000
    (first, *_) = [each for each in found.evaluations() if each.scores["clarity"].status == "ok"]
    assert first.scores["clarity"].detail["cost_usd"] is None


def test_a_prompt_that_a_filter_caught_may_be_billed(store, monkeypatch):
    """Azure bills for it; the status alone (400) says nothing of that."""
    import asyncio

    from pydantic_ai.exceptions import ModelHTTPError, UserError
    from pydantic_ai.models.function import FunctionModel

    from tests.metrics.judge.budget.calls import call
    from trivium.metrics.judge.client.pydantic_ai_models import PydanticAIClient
    from trivium.metrics.judge.client.request import RequestError

    def raised_by(error):
        def fail(*_):
            raise error

        async def send():
            client = PydanticAIClient(FunctionModel(fail), "python:fails")
            try:
                await client.send(msgspec.structs.replace(call(), output="tool"))
            except RequestError as trouble:
                return trouble
            finally:
                await client.close()

        return asyncio.run(send())

    filtered = ModelHTTPError(status_code=400, model_name="m", provider_error_code="content_filter")
    assert (raised_by(filtered).kind, raised_by(filtered).billed) == ("permanent", True)
    assert not raised_by(ModelHTTPError(status_code=400, model_name="m")).billed
    assert not raised_by(UserError("no such setting")).billed
