"""What is kept of values, secrets and settings, and who is told to have spoken."""

import asyncio
from importlib import import_module
from types import SimpleNamespace

import pytest

import trivium as tv
from tests.traces.recording.work import add, search, spans_of, stream, words
from trivium.errors import InputError
from trivium.traces.recording import config as configuring

pytestmark = pytest.mark.usefixtures("nothing_is_written")


class _Usage:
    prompt_tokens = 7
    completion_tokens = 2


class _Answer:
    usage = _Usage()

    def model_dump(self, mode):
        return {"text": "yes", "mode": mode}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (_Answer(), (7, 2)),
        ({"usage": {"input_tokens": 7, "output_tokens": 2}}, (7, 2)),
        ({"usage": {"prompt_tokens": 7, "completion_tokens": None}}, (7, None)),
        ({"usage": {"input_tokens": "many"}}, None),
        ("text", None),
    ],
)
def test_the_tokens_of_a_models_answer_are_taken_from_it(answer, expected):
    usage = spans_of(tv.trace.llm("m")(lambda: answer))["m"].usage
    assert (usage and (usage.input_tokens, usage.output_tokens)) == expected


OPENAI = {
    "total_tokens": 130,
    "prompt_tokens": 100,
    "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 4},
    "completion_tokens": 30,
    "completion_tokens_details": {"reasoning_tokens": 20, "audio_tokens": 0},
}
RESPONSES = {
    "total_tokens": 130,
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 5},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 20},
}
ANTHROPIC = {
    "input_tokens": 40,
    "output_tokens": 30,
    "cache_read_input_tokens": 60,
    "cache_creation_input_tokens": 5,
    "output_tokens_details": {"thinking_tokens": 20},
}


@pytest.mark.parametrize("as_object", [False, True])
@pytest.mark.parametrize(
    ("client", "record", "usage", "expected"),
    [
        ("openai.types", "CompletionUsage", OPENAI, (100, 30, 60, None, 4, 20, 0)),
        ("openai.types.responses", "ResponseUsage", RESPONSES, (100, 30, 60, 5, None, 20, None)),
        ("anthropic.types", "Usage", ANTHROPIC, (105, 30, 60, 5, None, 20, None)),
    ],
)
def test_the_classes_of_tokens_are_those_of_the_providers_client(client, record, usage, expected, as_object):
    given = getattr(import_module(client), record).model_validate(usage) if as_object else usage
    answer = SimpleNamespace(usage=given) if as_object else {"usage": given}
    found = spans_of(tv.trace.llm("m")(lambda: answer))["m"].usage
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "input_audio_tokens",
             "reasoning_tokens", "output_audio_tokens")  # fmt: skip
    assert tuple(getattr(found, name) for name in names) == expected


def test_pydantic_models_are_recorded_by_their_fields():
    assert spans_of(tv.trace.tool("t")(_Answer))["t"].output == {"text": "yes", "mode": "json"}


def test_off_records_nothing_and_the_code_runs_on():
    @tv.trace.agent
    async def agent():
        tv.trace.message("other", "x")
        tv.trace.current().note(a=1)
        tv.trace.current().used(input_tokens=1)
        tv.trace.current().failed("x")
        with tv.trace.span("step") as span:
            span.output = 1
        list(words("a"))
        return [await search("q"), [word async for word in stream("s t")], add(1)]

    assert asyncio.run(agent()) == [["Q"], ["s", "t"], 3]


def test_values_without_a_json_form_are_reported_and_bounded():
    class Odd:
        def __repr__(self):
            return "<odd>"

    class Evil:
        def __repr__(self):
            raise RuntimeError("no")

    loop = []
    loop.append(loop)
    outputs = {
        "object": Odd(), "evil": Evil(), "loop": loop, "nan": float("nan"), "long": "x" * 100_000,
        "many": list(range(100_000)), "half": "a\ud800b",
    }  # fmt: skip
    found = {
        name: spans_of(tv.trace.tool("t")(lambda v=value: v))["t"].output for name, value in outputs.items()
    }
    assert found["object"] == "<odd>"
    assert found["evil"] == "[Evil is not recorded: RuntimeError]"
    assert found["loop"] == ["[list is not recorded: it holds itself]"]
    assert len(found["long"]) < 70_000
    assert len(found["many"]) < 70_000
    assert found["half"] == "a\ufffdb"


def test_without_content_spans_are_recorded_without_texts(monkeypatch):
    monkeypatch.setattr(configuring._Current, "recording", configuring.Recording(folder=None, content=False))

    @tv.trace.tool
    def fails(secret):
        tv.trace.current().note(context="travel", note="private")
        raise ValueError("private")

    with tv.trace.recorded() as recorded, tv.trace.agent("a"):
        tv.trace.message("b", "private")
        with pytest.raises(ValueError, match="private"):
            fails("private")
    assert "private" not in repr(recorded.trace)
    (call,) = recorded.trace.tool_calls
    assert call.attributes == {"error": "ValueError", "context": "travel"}


def test_secrets_and_own_patterns_are_masked_wherever_they_stand(monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "hunter2-hunter2")
    tv.trace.configure(folder=None, mask=[r"\d{3}-\d{4}"])

    @tv.trace.tool
    def call(headers, phone):
        tv.trace.message("b", {"deep": [{"password": "tea", "say": "hunter2-hunter2"}]}, sender="a")
        raise ValueError("Bearer abcdefghijklmnop12345 for 555-1234")

    with tv.trace.recorded() as recorded, pytest.raises(ValueError, match="Bearer"):
        call({"Authorization": "Bearer abcdefghijklmnop12345", "n": 1}, phone="call 555-1234")
    shown = repr(recorded.trace)
    for secret in ("hunter2", "abcdefghijklmnop", "555-1234", "tea"):
        assert secret not in shown
    assert recorded.trace.spans[0].input["headers"]["n"] == 1


@pytest.mark.parametrize(("options", "place"), [({"mask": ["("]}, "mask"), ({"rotate_bytes": 0}, "rotate")])
def test_invalid_settings_are_errors(options, place):
    with pytest.raises(InputError, match=place):
        tv.trace.configure(**options)
