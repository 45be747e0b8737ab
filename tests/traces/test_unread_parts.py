"""Parts of messages that are no text are named and counted, whatever the format of the trace."""

import json

import pytest

from trivium.formats.inspect_log.traces import trace_of_sample
from trivium.traces.conversation import unread_parts
from trivium.traces.readers import read_trace

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}
TEXT = {"type": "text", "text": "What is this?"}
TALK = [
    {"role": "user", "content": [TEXT, IMAGE, SOUND, IMAGE]},
    {"role": "assistant", "content": "A cat.", "tool_calls": []},
]
SAID = "parts that are no text are left out: 2 image_url, 1 input_audio"
TIMES = {"start_time": "2026-01-02T03:04:05Z", "end_time": "2026-01-02T03:04:06Z"}


def otlp(**attributes):
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    root = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": "a",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [root | {"attributes": pairs}]}]}]}


def agent(key, value):
    return otlp(**{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", key: json.dumps(value)})


PARTS = [
    {"type": "text", "content": "What is this?"},
    {"type": "blob", "modality": "image_url", "content": "AA"},
    {"type": "uri", "modality": "input_audio", "uri": "x"},
    {"type": "file", "modality": "image_url", "file_id": "x"},
]
CLAUDE = [
    {"type": "system", "subtype": "init", "session_id": "s"},
    {"type": "user", "session_id": "s", "message": {"role": "user", "content": [TEXT, IMAGE, SOUND, IMAGE]}},
    {"type": "assistant", "session_id": "s", "message": {"id": "m", "role": "assistant", "content": [TEXT]}},
]
RUN = {"id": "r", "name": "r", "run_type": "chain", "trace_id": "t", "parent_run_id": None, **TIMES}
ROW = {"id": "1", "trace_id": "t", "parent_span_id": None, "name": "n", "type": "general", **TIMES}
OPIK = {"trace": {"id": "t", "name": "n", **TIMES}, "spans": [ROW | {"input": {"messages": TALK}}]}


@pytest.mark.parametrize(
    ("format_", "value"),
    [
        ("messages", {"messages": TALK}),
        ("native", {"spans": [{"id": "1", "kind": "agent", "name": "a", "input": {"messages": TALK}}]}),
        ("native", {"spans": [{"id": "1", "kind": "agent", "name": "a", "output": {"messages": TALK}}]}),
        ("otlp", agent("gen_ai.input.messages", [{"role": "user", "parts": PARTS}])),
        ("otlp", agent("input.value", {"messages": TALK})),
        ("langsmith", RUN | {"inputs": {"messages": TALK}, "outputs": {"messages": TALK}}),
        ("opik", OPIK),
    ],
)
def test_they_are_counted_once_in_each_format(format_, value):
    assert [each.what for each in read_trace(value, format_).problems if each.kind == "unread_parts"] == [
        SAID
    ]


def test_in_a_session_of_claude_code_and_in_a_sample_of_inspect():
    claude = read_trace(CLAUDE, "claude-code")
    inspect = trace_of_sample({"id": "1", "epoch": 1, "messages": TALK})
    for trace in (claude, inspect):
        assert [each.what for each in trace.problems if each.kind == "unread_parts"] == [SAID]


READ = [TEXT, {"text": "image"}, {"toolUse": {}}, {"functionCall": {}}, "image"]
READ += [{"type": name} for name in ("refusal", "tool_use", "reasoning", "thinking", "step-start")]


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"inline_data": {"mime_type": "image/png"}}, "inline_data"),  # Gemini
        ({"image": {"format": "png"}}, "image"),  # Bedrock
        ({"document": {"name": "d"}}, "document"),
        ({"type": "image", "source": {}}, "image"),  # Anthropic
        ({"type": "file", "mediaType": "application/pdf"}, "file"),  # the AI SDK
        ({"type": "hologram"}, "hologram"),
        *((part, None) for part in READ),
    ],
)
def test_what_is_no_text_is_told_from_what_is_read_elsewhere(part, kind):
    assert unread_parts([{"role": "user", "content": [part]}]) == ({kind: 1} if kind else {})


def test_data_that_are_no_messages_are_not_looked_into():
    assert unread_parts({"files": [IMAGE], "content": [IMAGE]}) == {}
