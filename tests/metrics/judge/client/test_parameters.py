"""Parameters that a server refuses by name are left out or replaced, once, and those of a suite are sent."""

import json

import msgspec
import pytest

from tests.judge_server import ANSWER, JudgeServer, Reaction
from tests.judge_server.fill import fill
from tests.metrics.judge.asked import CLAUDE, MINI, judged, served
from tests.runs.judging.suites import MODEL, provider, run, suite
from trivium.errors import SuiteError
from trivium.metrics.judge.client.provider_errors import message_of, refused_parameter
from trivium.store.store import Store
from trivium.suites.settings import ServerSettings

SENT = ("temperature", "seed", "logprobs", "response_format", "max_tokens")


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def openai(message, param=None, code="unsupported_parameter"):
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


USE = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
DEFAULT = "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."  # noqa: E501
LITELLM = "litellm.UnsupportedParamsError: azure does not support parameters: ['logprobs', 'top_logprobs'], for model=o1"  # noqa: E501
VERSIONS = (
    "response_format value as json_schema is enabled only for api versions 2024-08-01-preview and later"
)
TOO_LONG = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."


@pytest.mark.parametrize(
    ("status", "body", "parameter"),
    [
        (400, openai(USE, "max_tokens"), "max_tokens"),
        (400, openai(DEFAULT, "temperature", "unsupported_value"), "temperature"),
        (400, openai("'seed' is not supported", "seed"), "seed"),
        (403, openai("You are not allowed to request logprobs from this model", code=None), "logprobs"),
        (400, {"error": {"code": "BadRequest", "message": VERSIONS}}, "response_format"),
        (400, openai("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.", "response_format", None), "response_format"),  # noqa: E501
        (400, {"error": {"message": LITELLM, "type": "None", "param": "None", "code": "400"}}, "logprobs"),
        (500, {"error": {"message": LITELLM, "code": "500"}}, "logprobs"),
        (400, {"object": "error", "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted'}]", "code": 400}, "seed"),  # noqa: E501
        (422, {"detail": [{"loc": ["body", "top_logprobs"], "msg": "Extra inputs are not permitted"}]}, "logprobs"),  # noqa: E501
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "output_config: Extra inputs are not permitted"}}, "response_format"),  # noqa: E501
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "`temperature` is deprecated for this model."}}, "temperature"),  # noqa: E501
        (400, openai("This response_format type is unavailable now", None, "invalid_request_error"), "response_format"),  # noqa: E501
        (400, openai(TOO_LONG, "messages", "context_length_exceeded"), None),
        (400, openai("Invalid prompt: it says that temperature is high", "messages"), None),
        (429, openai("temperature is not supported"), None),
    ],
)  # fmt: skip
def test_the_parameter_that_an_error_names_is_found(status, body, parameter):
    assert refused_parameter(SENT, status, body, message_of(body)) == parameter


def refuses(*names, words="Unsupported parameter: '{}' is not supported with this model."):
    """A plan of a server that turns requests with some fields away, the first such field named."""

    def plan(question):
        for name in names:
            if question.body.get(name) is not None:
                body = json.dumps(openai(words.format(name), name)).encode()
                return Reaction(kind="failure", status=400, body=body)
        return ANSWER

    return plan


REASONING = ("temperature", "logprobs", "top_logprobs", "seed")


@pytest.mark.parametrize("client", ["direct", "pydantic-ai"])
def test_a_reasoning_model_by_another_name_judges(monkeypatch, caplog, store, client):
    with provider(monkeypatch, plan=refuses(*REASONING)) as server:
        found = run(suite(20, client=client, concurrency=4), store)
    assert set(found.summary().metrics["clarity"].status) <= {"ok", "abstained"}
    assert server.counts["failure"] <= 4 + 4 + 2, "each parameter once, and what was on its way"
    assert not set(REASONING) & server.requests[-1].body.keys()
    for name in ("temperature", "logprobs", "seed"):
        line = f"the judge {MODEL}: {name} is refused, and it is left out from now on: gpt-4o-mini: HTTP 400"
        assert caplog.text.count(line) == 1
    detail = next(store.evaluations(found.record)).evaluation.scores["clarity"].detail
    assert sorted(detail["left_out"]) == ["logprobs", "seed", "temperature"]


def test_a_refused_parameter_is_stored_and_not_sent_by_the_next_run(monkeypatch, caplog, store):
    with provider(monkeypatch, plan=refuses("temperature", "seed")) as server:
        run(suite(3), store)
        before = len(server.requests)
        run(suite(3), store)
        assert len(server.requests) == before, "the answers of the first run are found"
        run(suite(5), store)
    assert len(server.requests) == before + 2
    assert server.counts["failure"] <= 6
    assert caplog.text.count("is refused") == 2


@pytest.mark.parametrize("name", ["max_completion_tokens", "max_tokens"])
def test_the_limit_of_an_answer_is_sent_by_its_other_name(monkeypatch, name):
    with served(JudgeServer(plan=refuses("max_completion_tokens")), monkeypatch) as server:
        (scores,) = judged(models=[MINI], on_failure="fail")
    assert scores["clarity"].status in ("ok", "abstained")
    first, last = server.requests
    assert last.body["max_tokens"] == first.body["max_completion_tokens"]


def test_with_a_budget_an_answer_needs_a_limit(monkeypatch, caplog, store):
    plan = refuses("max_completion_tokens", "max_tokens")
    with provider(monkeypatch, plan=plan):
        bounded = run(suite(3, budget_usd=1.0), store)
        free = run(suite(3), store)
    assert "ok" not in bounded.summary().metrics["clarity"].status
    assert caplog.text.count("max_tokens cannot be left out") == 1
    assert free.summary().metrics["clarity"].status == {"ok": 3}


def shape(question):
    if question.body.get("response_format") or question.body.get("output_config"):
        return "schema"
    return "tool" if question.tool else "prompt"


@pytest.mark.parametrize("client", ["direct", "pydantic-ai"])
@pytest.mark.parametrize(
    ("model", "refused", "expected"),
    [
        (MINI, ("response_format",), ["schema", "tool"]),
        (MINI, ("response_format", "tools"), ["schema", "tool", "prompt"]),
        (CLAUDE, ("output_config",), ["schema", "tool"]),
        (CLAUDE, ("output_config", "tools"), ["schema", "tool", "prompt"]),
    ],
)
def test_without_a_schema_a_tool_is_called_and_without_tools_the_prompt_asks(
    monkeypatch, model, refused, expected, client
):
    """What a model answers to a prompt that holds the schema is what it would have answered by it."""

    def answer(question):
        schema = question.schema
        if schema is None:
            text_after = question.prompt.partition("and with nothing else:\n")[2]
            schema = json.JSONDecoder().raw_decode(text_after)[0]
        filled = fill(schema, seed=1)
        return f"Here it is: {json.dumps(filled)}" if question.schema is None else filled

    with served(JudgeServer(plan=refuses(*refused), answer=answer), monkeypatch) as server:
        (scores,) = judged(models=[model], on_failure="fail", client=client)
    assert scores["clarity"].status in ("ok", "abstained"), scores["clarity"].reason
    assert [shape(each) for each in server.requests] == expected


def test_marks_for_a_cache_that_a_server_does_not_know_are_left_out(monkeypatch):
    def plan(question):
        if "cache_control" in json.dumps(question.body):
            body = openai("system.0.cache_control: Extra inputs are not permitted")
            return Reaction(kind="failure", status=400, body=json.dumps(body).encode())
        return ANSWER

    with served(JudgeServer(plan=plan), monkeypatch) as server:
        (scores,) = judged(models=[CLAUDE], on_failure="fail")
    assert scores["clarity"].status in ("ok", "abstained")
    assert len(server.requests) == 2


def bodies(monkeypatch, *, model=MINI, **judge):
    """What a suite sends, headers and body."""
    with served(JudgeServer(), monkeypatch) as server:
        (scores,) = judged(models=[model], on_failure="fail", **judge)
    assert scores["clarity"].status in ("ok", "abstained"), scores["clarity"].reason
    return server.requests[-1]


@pytest.mark.parametrize("client", ["direct", "pydantic-ai"])
def test_null_leaves_a_parameter_out_and_others_are_sent_as_they_are(monkeypatch, client):
    out = {"temperature": None, "seed": None, "logprobs": None, "max_tokens": None}
    sent = bodies(monkeypatch, client=client, parameters=out | {"top_p": 0.9, "my_own": {"a": 1}}).body
    assert not {"temperature", "seed", "logprobs", "top_logprobs", "max_completion_tokens"} & sent.keys()
    assert (sent["top_p"], sent["my_own"]) == (0.9, {"a": 1})
    assert shape(bodies(monkeypatch, client=client, parameters={"response_format": None})) == "tool"


@pytest.mark.parametrize("client", ["direct", "pydantic-ai"])
@pytest.mark.parametrize("model", ["openai:gpt-5-mini", "openai:my-own"])
def test_the_effort_of_reasoning_is_sent(monkeypatch, client, model):
    assert "reasoning_effort" not in bodies(monkeypatch, model=model, client=client).body
    assert (
        bodies(monkeypatch, model=model, client=client, reasoning_effort="low").body["reasoning_effort"]
        == "low"
    )


@pytest.mark.parametrize("client", ["direct", "pydantic-ai"])
def test_each_model_has_a_server_of_its_own_and_headers_from_the_environment(monkeypatch, client):
    monkeypatch.setenv("GATEWAY_KEY", "gw-0123456789abcdef")
    with JudgeServer() as own, served(JudgeServer(), monkeypatch) as usual:
        servers = {
            "openai:a": {
                "base_url": own.openai_url,
                "headers": {"x-team": "nlp", "authorization": "Bearer ${GATEWAY_KEY}"},
                "body": {"model": "real-name", "guided": True},
            },
            CLAUDE: {"base_url": own.anthropic_url},
        }
        judge = {"panel": True, "servers": convert(servers), "client": client, "on_failure": "fail"}
        (scores,) = judged(models=["openai:a", "openai:b", CLAUDE], **judge)
    assert scores["clarity"].status in ("ok", "abstained")
    (other,) = usual.requests
    assert other.model == "b"
    assert "x-team" not in other.headers
    by_api = {each.api: each for each in own.requests}
    assert by_api["chat"].headers["authorization"] == "Bearer gw-0123456789abcdef"
    assert by_api["chat"].headers["x-team"] == "nlp"
    assert (by_api["chat"].model, by_api["chat"].body["guided"]) == ("real-name", True)
    assert by_api["messages"].api == "messages"


def convert(servers):
    return msgspec.convert(servers, dict[str, ServerSettings])


def test_a_variable_that_is_not_set_turns_the_model_off(monkeypatch):
    monkeypatch.delenv("GATEWAY_KEY", raising=False)
    servers = convert({MINI: {"headers": {"x-key": "${GATEWAY_KEY}"}}})
    with served(JudgeServer(), monkeypatch) as server:
        (scores,) = judged(models=[MINI], servers=servers, on_failure="skip")
    assert "GATEWAY_KEY is not set, which judge.servers names" in scores["clarity"].reason
    assert not server.requests


def test_no_secret_of_a_header_is_in_the_store(monkeypatch, store, tmp_path):
    monkeypatch.setenv("GATEWAY_KEY", "gw-0123456789abcdef")
    servers = {MODEL: {"headers": {"authorization": "Bearer ${GATEWAY_KEY}"}}}
    with provider(monkeypatch):
        found = run(suite(2, servers=servers), store)
    assert found.summary().metrics["clarity"].status == {"ok": 2}
    for file in tmp_path.iterdir():
        assert b"gw-0123456789abcdef" not in file.read_bytes()


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ({"parameters": {"temperature": 0.3}}, 'judge.parameters.temperature: write it as judge.temperature'),
        ({"parameters": {"temperature": None}, "temperature": 1}, "leaves out what judge.temperature sets"),
        ({"parameters": {"max_tokens": None}, "budget_usd": 1}, "a budget needs a bound"),
        ({"parameters": {"top_k": None}}, "is not sent anyway; null leaves out one of temperature"),
        ({"parameters": {"messages": []}}, "found an empty list: it is set by Trivium"),
        ({"parameters": {"logprobs": True}}, "found true: it is set by Trivium"),
        ({"servers": {"openai:gpt-4o-mni": {}}}, 'Did you mean "openai:gpt-4o-mini"?'),
        ({"servers": {MODEL: {"headers": {"authorization": "Bearer abcdef0123456789"}}}}, "holds a secret"),
        ({"servers": {MODEL: {"headers": {"x-api-key": "abcdef0123456789"}}}}, "holds a secret"),
        ({"servers": {MODEL: {"base_url": "https://u:p4ssw0rd@host/v1"}}}, "holds a secret"),
        ({"servers": {MODEL: {"headers": {"a b": "1"}}}}, "is not a valid name of a header"),
        ({"servers": {MODEL: {"headers": {"a": "1\n2"}}}}, "holds a line break"),
        ({"servers": {MODEL: {"body": {"messages": []}}}}, "is set by Trivium"),
        ({"reasoning_effort": "lots"}, "judge.reasoning_effort"),
        ({"client": "directly"}, 'Did you mean "direct"?'),
    ],
)  # fmt: skip
def test_impossible_settings_are_reported_when_the_suite_is_read(judge, message):
    with pytest.raises(SuiteError) as caught:
        suite(1, **judge)
    assert message in str(caught.value)


def test_a_model_that_cannot_be_asked_directly_says_so(monkeypatch):
    with served(JudgeServer(), monkeypatch):
        (scores,) = judged(models=["groq:llama-3"], client="direct", on_failure="skip")
    assert "cannot be asked directly over HTTP (judge.client: direct)" in scores["clarity"].reason


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {"top_p": 0.5}},
        {"reasoning_effort": "low"},
        {"servers": {MODEL: {"body": {"a": 1}}}},
        {"servers": {MODEL: {"headers": {"x": "1"}}}},
    ],
    ids=str,
)
def test_what_could_change_an_answer_has_it_asked_anew(monkeypatch, store, change):
    with provider(monkeypatch) as server:
        run(suite(1), store)
        run(suite(1, **change), store)
        assert len(server.requests) == 2


def test_another_model_than_the_one_that_refuses_is_asked_for_everything(monkeypatch, store):
    plan = refuses("seed")
    with provider(monkeypatch, plan=lambda q: plan(q) if q.model == "gpt-4o-mini" else ANSWER) as server:
        run(suite(2, models=[MODEL, "openai:gpt-4o"], panel=True), store)
    assert all("seed" in each.body for each in server.requests if each.model == "gpt-4o")
