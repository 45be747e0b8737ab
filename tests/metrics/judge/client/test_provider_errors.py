"""What a provider says of its error is what a user reads, whatever the error came in."""

import asyncio

import msgspec
import pytest

from tests.judge_server import JudgeServer, Reaction, at, failure
from tests.metrics.judge.asked import CLAUDE, MINI, clarity, judged, served
from tests.metrics.judge.budget.calls import call
from tests.metrics.judge.client.provider_in_virtual_time import Provider, Weather
from tests.metrics.judge.client.virtual_time import in_virtual_time
from trivium.metrics.judge.budget.budget import run_budget
from trivium.metrics.judge.client.providers import GivenUp
from trivium.metrics.judge.client.request import RequestError
from trivium.metrics.judge.client.scheduler import TRIES, RequestScheduler
from trivium.suites.settings import JudgeSettings

EMPTY = b'{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}'


def garbled(body):
    return Reaction(kind="garbled", body=body)


def reason(monkeypatch, plan, model=MINI, **judge):
    with served(JudgeServer(plan=plan), monkeypatch) as server:
        (scores,) = judged(models=[model], on_failure="skip", **judge)
    return scores["clarity"].reason, len(server.requests)


def test_no_exception_of_python_is_a_message(monkeypatch):
    why, _ = reason(monkeypatch, lambda _: garbled(EMPTY))
    assert "gpt-4o-mini: the reply holds no answer that can be read" in why
    assert "Error" not in why


def test_an_error_in_place_of_an_answer_keeps_the_words_of_who_sent_it(monkeypatch):
    """As OpenRouter sends them, with status 200."""
    metadata = {"provider_name": "DeepInfra", "raw": "the model is too busy"}
    body = {"error": {"message": "Provider returned error", "code": 502, "metadata": metadata}}
    why, requests = reason(monkeypatch, lambda _: garbled(msgspec.json.encode(body)))
    assert "gpt-4o-mini: HTTP 502: Provider returned error (DeepInfra: the model is too busy)" in why
    assert "validation" not in why
    assert requests > 1


def test_an_error_in_place_of_an_answer_that_is_the_same_for_all_is_not_tried_again(monkeypatch):
    body = msgspec.json.encode({"error": {"message": "Insufficient credits", "code": 402}})
    why, requests = reason(monkeypatch, lambda _: garbled(body))
    assert "HTTP 402: Insufficient credits" in why
    assert requests == 1


def test_the_fields_that_a_validator_names_are_in_the_message(monkeypatch):
    body = b'{"detail": [{"loc": ["body", "messages"], "msg": "Field required", "type": "missing"}]}'
    why, _ = reason(monkeypatch, lambda _: Reaction(kind="failure", status=422, body=body))
    assert "HTTP 422: body.messages: Field required" in why


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("model", [MINI, CLAUDE])
def test_a_redirect_on_the_same_host_is_followed_and_remembered(monkeypatch, status, model):
    def plan(question):
        if "/moved/" in question.path:
            return Reaction()
        return Reaction(kind="failure", status=status, headers=(("location", f"/moved{question.path}"),))

    with served(JudgeServer(plan=plan), monkeypatch) as server:
        scores = judged(models=[model], samples=2, concurrency=1, on_failure="fail")
    assert scores[0]["clarity"].status in ("ok", "abstained")
    assert ["/moved/" in each.path for each in server.requests] == [False, True, True]
    assert server.requests[0].body == server.requests[1].body


@pytest.mark.parametrize("status", [302, 307, 308])
def test_a_redirect_elsewhere_does_not_carry_the_key_there_and_is_not_tried_again(monkeypatch, status):
    with JudgeServer() as other:
        where = f"{other.openai_url}/chat/completions"
        moved = Reaction(kind="failure", status=status, headers=(("location", where),))
        why, requests = reason(monkeypatch, lambda _: moved)
        assert not other.requests
    assert requests == 1
    assert f"redirects (HTTP {status}) to {where}, which is not followed" in why


def test_redirects_in_a_circle_end(monkeypatch):
    def plan(question):
        return Reaction(kind="failure", status=307, headers=(("location", question.path),))

    why, requests = reason(monkeypatch, plan)
    assert "redirects more than 5 times" in why
    assert requests == 5


def waited(told, *, refusals, time_limit=86_400, prompts=1):
    """Prompts of which each is refused so many times; what came of them, and the seconds that it took."""
    refused = {}

    class Busy(Provider):
        async def send(self, each, on_sent=lambda: None):
            text = each.turns[0]
            if refused.setdefault(text, 0) < refusals and int(text) < prompts:
                refused[text] += 1
                raise RequestError("m: HTTP 429: come back later", kind="rate_limited", retry_after=told)
            return await super().send(each, on_sent)

    async def ask():
        budget = run_budget(JudgeSettings())
        scheduler = RequestScheduler(
            Busy(Weather(), 1),
            budget,
            JudgeSettings(concurrency=5, timeout=60, time_limit=time_limit),
            name="a:m",
        )
        asking = [scheduler.ask(call(text=str(n)), about=("clarity",)) for n in range(20)]
        found = await asyncio.gather(*asking, return_exceptions=True)
        seconds = scheduler._loop.time()
        await scheduler.close()
        return found, seconds

    return in_virtual_time(ask())


@pytest.mark.parametrize("told", [90, 7200])
def test_a_long_retry_after_is_waited_for_and_its_end_is_logged(caplog, told):
    found, seconds = waited(told, refusals=1, prompts=4)
    assert not [each for each in found if isinstance(each, BaseException)]
    assert told <= seconds < told + 10
    assert caplog.text.count(f"the judge a:m: the provider asks to wait {told:,} s (Retry-After)") == 1


def test_a_retry_after_beyond_the_time_limit_is_not_waited_for_and_the_reason_says_so(caplog):
    found, seconds = waited(90, refusals=1, time_limit=80)
    (given_up,) = [each for each in found if isinstance(each, GivenUp)]
    assert "HTTP 429: come back later; it asks to wait 90 s (Retry-After), until " in str(given_up)
    assert str(given_up).endswith("beyond the 80 s of judge.time_limit")
    assert seconds < 10
    assert "asks to wait" not in caplog.text


@pytest.mark.parametrize("told", [12, 20, 30])
def test_nothing_is_asked_or_waited_for_after_the_time_limit(told):
    found, seconds = waited(told, refusals=1000, time_limit=100, prompts=20)
    assert {type(each) for each in found} == {GivenUp}
    assert seconds < 101


def test_a_provider_that_asks_for_wait_after_wait_is_given_up():
    found, seconds = waited(300, refusals=1000, prompts=20)
    assert {type(each) for each in found} == {GivenUp}
    assert seconds < (TRIES + 2) * 300 + 120


def test_the_time_limit_is_a_setting(monkeypatch):
    why, requests = reason(monkeypatch, lambda _: failure(429, retry_after=90), time_limit=60)
    assert "beyond the 60 s of judge.time_limit" in why
    assert requests == 1


def rejected(written, code="json_validate_failed"):
    """As Groq answers where the model's text breaks the schema."""
    error = {"message": "Failed to generate JSON.", "code": code, "failed_generation": written}
    return Reaction(kind="failure", status=400, body=msgspec.json.encode({"error": error}))


CLIENTS = pytest.mark.parametrize("client", ["direct", "pydantic-ai"])


@CLIENTS
@pytest.mark.parametrize("code", ["json_validate_failed", "tool_use_failed"])
@pytest.mark.parametrize("written", ['{"clar', "", None, "I would say 4."])
def test_an_answer_that_its_server_rejects_is_asked_for_again(monkeypatch, client, code, written):
    with served(JudgeServer(plan=at({0: rejected(written, code)})), monkeypatch) as server:
        (scores,) = judged(models=[MINI], on_failure="fail", client=client)
    assert scores["clarity"].status == "ok", scores["clarity"].reason
    assert len(server.requests) == scores["clarity"].detail["requests"] == 2
    assert "That answer cannot be used" in server.requests[1].prompt


@CLIENTS
def test_an_answer_that_its_server_rejects_and_that_can_be_read_counts(monkeypatch, client):
    written = f"<tool_call>{msgspec.json.encode(clarity(5)).decode()}</tool_call>"
    with served(JudgeServer(plan=at({0: rejected(written)})), monkeypatch) as server:
        (scores,) = judged(models=[MINI], on_failure="fail", client=client)
    assert (scores["clarity"].value, len(server.requests)) == (1.0, 1)


def test_an_answer_that_its_server_rejects_is_charged_its_maximum(monkeypatch):
    """Its tokens were generated, and are not reported."""
    with served(JudgeServer(plan=lambda _: rejected("no")), monkeypatch) as server:
        (scores,) = judged(models=[MINI], on_failure="skip", budget_tokens=10_000, max_tokens=2_000)
    assert "the budget of 10,000 tokens" in scores["clarity"].reason
    assert len(server.requests) == 1


@CLIENTS
@pytest.mark.parametrize(
    "error",
    [
        {"message": "Requested sample logprobs of 5, which is greater than max allowed: 0"},
        {"message": "Invalid value: must be between 0 and 3.", "param": "top_logprobs"},
        {"message": "top_logprobs must be less than or equal to 1"},
        {"message": "[{'loc': ('body', 'logprobs'), 'msg': 'Input should be at most 0'}]"},
    ],
    ids=lambda error: error["message"][:30],
)
def test_where_fewer_log_probabilities_are_allowed_none_are_asked_for(monkeypatch, client, error):
    def plan(question):
        body = msgspec.json.encode({"error": {"type": "invalid_request_error", **error}})
        return (
            Reaction(kind="failure", status=400, body=body) if "top_logprobs" in question.body else Reaction()
        )

    with served(JudgeServer(plan=plan), monkeypatch) as server:
        (scores,) = judged(models=[MINI], on_failure="fail", client=client)
    assert (scores["clarity"].status, len(server.requests)) == ("ok", 2), scores["clarity"].reason
    assert scores["clarity"].detail["left_out"] == ["logprobs"]
    assert "logprobs" not in server.requests[1].body


@pytest.mark.parametrize("message", ["max_tokens must be at most 100", "temperature must be between 0 and 1"])
def test_a_limit_of_anything_that_a_suite_may_set_is_an_error(monkeypatch, message):
    why, requests = reason(monkeypatch, lambda _: failure(400, message=message))
    assert message in why
    assert requests == 1
