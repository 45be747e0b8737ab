"""``trivium case from``: a trace of production becomes a case of a suite."""

import json
from pathlib import Path

import click
import pytest

import trivium as tv
from tests.traces.opentelemetry.spans import content, span, tool
from trivium.cli import case as command
from trivium.cli.main import run_command
from trivium.monitor.interaction import Recorded, encode_recorded
from trivium.store.live_records import RecordedTrace
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store
from trivium.suites.suite import Suite
from trivium.traces.readers.collection import read_trace_file

HERE = Path("suite.yaml")
SUITE = """\
# What support is asked.
name: support
cases:
  - id: "1"
    input: Hello?        # a greeting
    references: [Hello.]
"""
KEY = "sk-proj-abcdefghij1234567890klmnopqrst"


def turn(number, question, answer, **attributes):
    """A trace of one turn of a conversation, in the native format."""
    root = {"id": "a", "kind": "agent", "name": "support", "start": 0, "end": 4, "input": question}
    call = {"id": "b", "parent": "a", "kind": "tool", "name": "track", "start": 1, "end": 2}
    call |= {"input": {"order": 7, "api_key": KEY}, "output": "in Lyon"}
    metadata = {"conversation_id": "c", "started": f"2026-11-01T10:0{number}:00Z"}
    spans = [root | {"output": answer} | attributes, call]
    return {"trace_id": f"t{number}", "spans": spans, "metadata": metadata}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.yaml").write_text(SUITE)
    failed = turn(2, f"And when? My key is {KEY}.", None, ok=False, attributes={"error": "gave up"})
    traces = [failed, turn(1, "Where is my parcel?", "In Lyon."), {"trace_id": "other", "spans": []}]
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(each) + "\n" for each in traces))


def outcome(capsys, *arguments):
    code = run_command(["case", "from", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_failed_trace_becomes_a_case_in_one_command(capsys):
    code, out, err = outcome(capsys, "traces.jsonl", "--trace-id", "t2", "--suite", "suite.yaml", "--yes")
    assert code == 0
    assert "masked: secrets in 2 texts" in err
    written = HERE.read_text()
    assert written.startswith(SUITE)
    assert KEY not in written + out
    case = Suite.load("suite.yaml").case("t2")
    assert case.input == [
        {"role": "user", "content": "Where is my parcel?"},
        {"role": "assistant", "content": "In Lyon."},
        {"role": "user", "content": "And when? My key is [masked]."},
    ]
    assert (case.group, case.references, case.expect.tools) == ("c", (), None)
    assert case.metadata == {"trace": "t2", "recorded": "2026-11-01T10:02:00Z"}
    assert "# What is expected is yours to say. The agent failed (agent support failed: gave up)" in written
    assert '#     - {"name": "track", "arguments": {"order": 7, "api_key": "[masked]"}}' in written


def test_without_a_terminal_and_without_yes_it_only_shows(capsys):
    code, out, err = outcome(capsys, "traces.jsonl", "--trace-id", "t1", "--suite", "suite.yaml")
    assert (code, HERE.read_text()) == (0, SUITE)
    assert '+    input: "Where is my parcel?"' in out
    assert "Nothing is written: add --yes to write it." in err
    code, out, err = outcome(capsys, "traces.jsonl", "--trace-id", "t1")
    assert out.startswith('- id: "t1"\n  input: "Where is my parcel?"\n')
    assert "Nothing is written: --suite FILE adds the case to a suite." in err


def test_what_its_tools_returned_is_kept_for_mocks(capsys):
    arguments = ["traces.jsonl", "--trace-id", "t1", "--suite", "suite.yaml", "--calls", "calls.jsonl"]
    code, out, _ = outcome(capsys, *arguments)
    assert (code, Path("calls.jsonl").exists()) == (0, False)
    assert "+++ calls.jsonl" in out
    assert outcome(capsys, *arguments, "--yes")[0] == 0
    second = ["traces.jsonl", "--trace-id", "t2", "--suite", "suite.yaml", "--calls", "calls.jsonl", "--yes"]
    assert outcome(capsys, *second)[0] == 0
    kept = read_trace_file("calls.jsonl")
    assert [trace.trace_id for trace in kept] == ["t1", "t2"]
    (call,) = kept[0].tool_calls
    assert (call.name, call.input, call.output, call.ok) == (
        "track",
        {"order": 7, "api_key": "[masked]"},
        "in Lyon",
        True,
    )
    assert tv.mock_tools("calls.jsonl")["track"](order=7, api_key="[masked]") == "in Lyon"
    code, _, err = outcome(capsys, *arguments[:-1], "calls.csv", "--id", "new")
    assert (code, "expected a file of JSON lines" in err) == (2, True)


@pytest.mark.parametrize(("answer", "cases"), [(True, 2), (False, 1)])
def test_in_a_terminal_it_asks(answer, cases, capsys, monkeypatch):
    asked = []
    monkeypatch.setattr(command.sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda text, **_: asked.append(text) or answer)
    code, _, _ = outcome(capsys, "traces.jsonl", "--trace-id", "t1", "--suite", "suite.yaml")
    assert (code, asked, len(Suite.load("suite.yaml"))) == (0, ["Write suite.yaml?"], cases)


def test_the_one_trace_of_a_file_of_any_format_needs_no_id(capsys, tmp_path):
    asked = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support", "input.value": "Where?"}
    spans = [span("support", asked, at=(0, 9)), tool("track", parent="support", at=(1, 2))]
    (tmp_path / "spans.json").write_bytes(content(*spans))
    code, out, _ = outcome(capsys, "spans.json", "--id", "where")
    assert code == 0
    assert out.startswith('- id: "where"\n  input: "Where?"\n')


def test_a_recorded_chat_keeps_its_earlier_messages(capsys, tmp_path):
    chat = [("system", "Be kind."), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]
    messages = [{"role": role, "content": text} for role, text in chat]
    (tmp_path / "chat.jsonl").write_text(json.dumps({"id": "chat", "messages": messages}) + "\n")
    assert outcome(capsys, "chat.jsonl", "--suite", "suite.yaml", "--yes")[0] == 0
    assert Suite.load("suite.yaml").case("chat").input == [messages[1], messages[2], messages[3]]


def test_a_trace_that_was_received_is_found_by_its_id(capsys, tmp_path):
    url = f"sqlite:///{tmp_path / 'live.db'}"
    recorded = Recorded(time=1_700_000_000, input="Where?", output="In Lyon.", session="c")
    with Store(url) as store:
        received = RecordedTrace(trace_id="live-1", body=encode_recorded(recorded), choices=[])
        LiveTraces(store).record([received], 1_700_000_000)
    code, out, _ = outcome(capsys, "live-1", "--store", url)
    assert code == 0
    assert out.startswith('- id: "live-1"\n  input: "Where?"\n  group: "c"\n')
    assert '# references: ["In Lyon."]' in out
    code, _, err = outcome(capsys, "live-2", "--store", url)
    assert (code, "no trace with this id" in err) == (2, True)


def test_a_received_trace_comes_with_the_earlier_ones_of_its_conversation(capsys, tmp_path):
    """Received out of order; one of another conversation that names this one, a later one, and an old one."""
    url, start = f"sqlite:///{tmp_path / 'live.db'}", 1_700_000_000
    said = [
        ("t2", 120, "Is it heavy?", "No.", "c"),
        ("t1", 60, "Where is it?", "In Lyon.", "c"),
        ("other", 130, "I mean c", "Yes.", "d"),
        ("t3", 180, "And when?", None, "c"),
        ("t4", 240, "Hello?", "Hi.", "c"),
        ("old", 60 - 2 * 86_400, "Long ago", "Yes.", "c"),
    ]
    with Store(url) as store:
        for id_, seconds, question, answer, session in said:
            recorded = Recorded(time=start + seconds, input=question, output=answer, session=session)
            received = RecordedTrace(trace_id=id_, body=encode_recorded(recorded), choices=[])
            LiveTraces(store).record([received], start + min(seconds, 180))
    assert outcome(capsys, "t3", "--store", url, "--suite", "suite.yaml", "--yes")[0] == 0
    case = Suite.load("suite.yaml").case("t3")
    assert [each["content"] for each in case.input] == [
        "Where is it?", "In Lyon.", "Is it heavy?", "No.", "And when?",
    ]  # fmt: skip
    assert case.group == "c"


def test_the_conversation_of_a_received_trace_is_found_in_its_spans(capsys, tmp_path):
    pytest.importorskip("opentelemetry.proto")
    from tests import otlp_requests as otlp
    from trivium.monitor.otlp import IntakeLimits, batch_of

    url, ids = f"sqlite:///{tmp_path / 'live.db'}", [bytes([number]) * 16 for number in range(1, 4)]
    with Store(url) as store:
        for number, (id_, question, answer, session) in enumerate(
            [(ids[0], "Where?", "In Lyon.", "c"), (ids[1], "Why?", "x", "d"), (ids[2], "When?", "Soon.", "c")]
        ):
            said = {"input.value": question, "output.value": answer, "session.id": session}
            start = otlp.BEGAN + 60 * number * otlp.SECOND
            spans = [otlp.span(id_, start=start, operation="invoke_agent", agent="a", **said)]
            batch = batch_of(otlp.body(spans), "protobuf", IntakeLimits())
            LiveTraces(store).add(batch, 1_700_000_000 + 60 * number)
    code, out, _ = outcome(capsys, ids[2].hex(), "--store", url)
    assert code == 0
    assert ["Where?" in out, "In Lyon." in out, "When?" in out, "Why?" in out] == [True, True, True, False]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["traces.jsonl"], "holds 3 traces: name one by --trace-id (t2, t1, other)"),
        (["traces.jsonl", "--trace-id", "t9"], 'holds no trace "t9"'),
        (["traces.jsonl", "--trace-id", "other"], "its input was not recorded"),
        (["nothing.json"], "there is no such file, nor a store with traces"),
        (["suite.yaml"], "suite.yaml"),
        (["traces.jsonl", "--trace-id", "t1", "--suite", "suite.yaml", "--id", "1"], 'a case "1" already'),
    ],
)
def test_what_cannot_become_a_case_is_named(arguments, says, capsys):
    code, out, err = outcome(capsys, *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert HERE.read_text() == SUITE


def test_one_of_two_traces_of_the_same_id_is_not_taken_silently(capsys):
    Path("twice").mkdir()
    for name in ("a", "b"):
        Path(f"twice/{name}.jsonl").write_bytes(Path("traces.jsonl").read_bytes())
    code, out, err = outcome(capsys, "twice", "--trace-id", "t1")
    assert (code, out) == (2, "")
    assert 'holds 2 traces "t1": name the file of the right one' in err
