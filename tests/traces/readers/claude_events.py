"""Events of Claude Code, written by hand."""

import json

from trivium.traces.readers.claude_code import read_traces


def assistant(*blocks, id="m1", parent=None, output=5, **fields):
    usage = {"input_tokens": 10, "cache_read_input_tokens": 30, "output_tokens": output}
    message = {"id": id, "model": "claude", "content": list(blocks), "usage": usage}
    message["stop_reason"] = fields.pop("stop_reason", None)
    return {"type": "assistant", "message": message, "session_id": "s", "parent_tool_use_id": parent} | fields


def user(*blocks, parent=None, **fields):
    message = {"role": "user", "content": list(blocks)}
    return {"type": "user", "message": message, "session_id": "s", "parent_tool_use_id": parent} | fields


def use(id, tool, /, **input):
    return {"type": "tool_use", "id": id, "name": tool, "input": input}


def result(id, content="done", **fields):
    return {"type": "tool_result", "tool_use_id": id, "content": content} | fields


def says(text):
    return {"type": "text", "text": text}


def end(**fields):
    return {"type": "result", "subtype": "success", "is_error": False, "session_id": "s"} | fields


STREAM = [
    {"type": "system", "subtype": "init", "session_id": "s", "model": "claude", "claude_code_version": "2.1"},
    assistant(says("Let me look.")),
    assistant(use("t1", "Task", subagent_type="Explore", prompt="Find it.")),
    user(says("Find it."), parent="t1"),
    assistant(use("t2", "Read", file_path="a"), id="m2", parent="t1"),
    assistant(use("t3", "Bash", command="ls"), id="m2", parent="t1"),
    user(result("t3", "denied", is_error=True), parent="t1"),
    user(result("t2"), parent="t1"),
    user(result("t1", [says("Found."), says("Twice.")])),
    assistant(says("Here it is."), id="m3"),
    end(duration_ms=1500, total_cost_usd=0.5, result="Here it is.",
        usage={"input_tokens": 4, "cache_creation_input_tokens": 6, "output_tokens": 700},
        modelUsage={"claude": {"inputTokens": 9, "cacheReadInputTokens": 1, "outputTokens": 900}}),
]  # fmt: skip


def trace_of(*events):
    (trace,) = read_traces(list(events), "x")
    return trace


def spans(trace, kind):
    return [span for span in trace.spans if span.kind == kind]


def message_tuples(trace):
    return [(m.sender, m.receiver, m.type) for m in trace.messages]


def write(path, events):
    path.write_text("\n".join(json.dumps(event) for event in events) + "\n", encoding="utf-8")
    return path


def stamped(second, event, **fields):
    return event | {"timestamp": f"2026-03-03T00:00:{second:02}.000Z", "sessionId": "s"} | fields


TRANSCRIPT = [
    {"type": "summary", "summary": "Old talk", "leafUuid": "u0"},
    {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}},
    stamped(0, user(says("<caveat>")), isMeta=True, uuid="u0"),
    stamped(1, user(says("Do it.")), uuid="u1"),
    stamped(3, assistant(use("t", "Task", subagent_type="Explore", prompt="Look.")), uuid="u2"),
    stamped(4, user(says("Look.")), uuid="v1", parentUuid=None, isSidechain=True),
    stamped(6, assistant(use("r", "Read"), id="n1"), uuid="v2", parentUuid="v1", isSidechain=True),
    stamped(7, user(result("r")), uuid="v3", parentUuid="v2", isSidechain=True),
    stamped(9, user(result("t", "Seen.")), uuid="u3", toolUseResult={"agentId": "a9", "totalTokens": 5}),
    stamped(9, user(result("t", "Seen.")), uuid="u3"),
    stamped(10, {"type": "system", "subtype": "compact_boundary"}, uuid="u4"),
    stamped(10, user(says("Summary so far")), isCompactSummary=True, uuid="u5"),
    stamped(12, assistant(says("Done."), id="m9", output=50, stop_reason="end_turn"), uuid="u6"),
]  # fmt: skip
