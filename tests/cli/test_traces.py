"""``trivium traces``: what is shown of traces, and what they become."""

import gzip
import json

import pytest

from tests.traces.opentelemetry.spans import agent, chat, content, tool
from tests.traces.opentelemetry.spans import span as one_span
from tests.traces.readers.otlp.test_encodings import protobuf
from trivium.cli.main import run_command
from trivium.traces.readers.collection import read_path

SPANS = (
    agent("boss", at=(0, 9)),
    tool("ask", parent="boss", at=(1, 5)),
    agent("aide", parent="ask", at=(2, 4)),
    chat("think", parent="aide", at=(2.5, 3)),
    tool("look", parent="aide", at=(3, 4), failed="no such page"),
)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spans.json").write_bytes(content(*SPANS))


def outcome(capsys, *arguments):
    code = run_command(["traces", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_show_prints_counts_as_one_json_document(capsys):
    code, out, err = outcome(capsys, "show", "spans.json", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    document.pop("process")
    assert document == {
        "format": "otlp",
        "traces": 1,
        "spans": 5,
        "kinds": {"agent": 2, "tool": 2, "llm": 1},
        "agent_runs": {"boss": 1, "aide": 1},
        "tools": {"ask": 1, "look": 1},
        "failed_tool_spans": 1,
        "llm_input_tokens": 10,
        "llm_output_tokens": 2,
        "agent_to_agent": [["boss", "aide", 1]],
        "orphans": 0,
        "max_depth": 4,
        "problems": [],
    }


def test_show_reports_the_process_of_traces(capsys):
    _, out, _ = outcome(capsys, "show", "spans.json", "--json")
    process = json.loads(out)["process"]
    assert (process["timed"], process["seconds"], process["waiting"], process["overlapped"]) == (1, 9, 0, 0)
    assert [(one["name"], one["seconds"]) for one in process["by_agent"]] == [("boss", 7), ("aide", 2)]
    assert [(one["name"], one["seconds"], one["critical"]) for one in process["by_tool"]] == [
        ("ask", 2, 2),
        ("look", 1, 1),
    ]
    steps = process["slowest"]["critical_path"]
    assert [(one["name"], one["at"], one["seconds"]) for one in steps] == [
        ("boss", 0, 5),
        ("ask", 1, 2),
        ("aide", 2, 0.5),
        ("m", 2.5, 0.5),
        ("look", 3, 1),
    ]
    _, out, _ = outcome(capsys, "show", "spans.json")
    for expected in ("wall time 9.0 s", "critical path: 9.0 s, 5 steps", "longest: boss → aide"):
        assert expected in out


def test_show_prints_a_table(capsys):
    code, out, err = outcome(capsys, "show", "spans.json")
    assert (code, err) == (0, "")
    for expected in ("1 trace of format otlp", "5 spans", "10 in, 2 out", "boss → aide", "look"):
        assert expected in out


def test_show_lists_what_was_repaired_and_makes_hostile_names_visible(capsys, tmp_path):
    lost = [tool("\x1b[31mred", parent="gone", at=(1, None)) for _ in range(12)]
    for index, span in enumerate(lost):
        span["spanId"] = f"{index + 1:016x}"
    many = [tool(f"t{index}", at=(index, index + 1)) for index in range(40)]
    (tmp_path / "lost.json").write_bytes(content(*lost, *many))
    code, out, _ = outcome(capsys, "show", "lost.json")
    assert code == 0
    assert "\x1b" not in out
    assert "orphan: 12" in out
    assert "14 more" in out
    assert "11 more" in out


def test_import_writes_native_traces_that_are_read_again(capsys, tmp_path):
    (tmp_path / "spans.json.gz").write_bytes(gzip.compress((tmp_path / "spans.json").read_bytes()))
    code, out, err = outcome(capsys, "import", "spans.json.gz", "-o", "native.jsonl")
    assert (code, out, err) == (0, "", "read as otlp: 1\n")
    found, (trace,) = read_path("native.jsonl")
    assert (found, trace) == ("native", read_path("spans.json")[1][0])
    code, out, err = outcome(capsys, "import", "spans.json")
    assert (code, out) == (0, (tmp_path / "native.jsonl").read_text())


def test_a_trace_split_over_files_is_one(capsys, tmp_path):
    for index, span in enumerate(SPANS):
        (tmp_path / f"part{index}.json").write_bytes(content(span))
    parts = [f"part{index}.json" for index in reversed(range(len(SPANS)))]
    code, out, _ = outcome(capsys, "import", *parts)
    assert code == 0
    assert out.count("\n") == 1
    assert json.loads(out) == json.loads(outcome(capsys, "import", "spans.json")[1])


def test_files_of_two_formats_are_refused(capsys, tmp_path):
    (tmp_path / "native.json").write_text('{"spans": []}')
    code, out, err = outcome(capsys, "show", "spans.json", "native.json")
    assert (code, out) == (2, "")
    assert "native.json: is of format native, and the first file of format otlp" in err


def test_what_cannot_be_read_or_written_ends_with_2(capsys):
    assert outcome(capsys, "show", "nowhere.json")[0] == 2
    code, _, err = outcome(capsys, "show", "spans.json", "--format", "otpl")
    assert (code, 'Did you mean "otlp"' in err) == (2, True)
    code, _, err = outcome(capsys, "import", "spans.json", "-o", "no/such/folder.jsonl")
    assert (code, "cannot be written" in err) == (2, True)


def test_a_line_of_outputs_may_name_a_file_of_spans(capsys, tmp_path):
    cases = [{"id": "1", "input": "q", "expect": {"tools": [{"name": "ask"}, {"name": "look"}]}}]
    suite = {"name": "s", "metrics": ["tool_selection", "tool_success"], "cases": cases}
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    for named in ({"file": "spans.json"}, {"file": "spans.json", "format": "otlp"}):
        line = {"case": "1", "output": "x", "trace": named}
        (tmp_path / "outputs.jsonl").write_text(json.dumps(line))
        assert run_command(["score", "suite.json", "--outputs", "outputs.jsonl", "--json"]) == 0
        metrics = json.loads(capsys.readouterr().out)["metrics"]
        assert (metrics["tool_selection"]["mean"], metrics["tool_success"]["mean"]) == (1.0, 0.5)


@pytest.mark.parametrize("ending", ["json", "pb"])
def test_a_folder_of_exports_is_shown_as_their_files_are(tmp_path, capsys, ending):
    folder = tmp_path / "exports"
    folder.mkdir()
    for number, half in enumerate((SPANS[:2], SPANS[2:])):
        made = content(*half) if ending == "json" else protobuf(*half).SerializeToString()
        (folder / f"{number}.{ending}").write_bytes(made)
    (folder / "README.md").write_text("where these are from")
    _, whole, _ = outcome(capsys, "show", "spans.json")
    assert outcome(capsys, "show", str(folder)) == (0, whole, "")


def test_a_hand_off_that_is_recorded_as_a_tool_is_no_call(tmp_path, capsys):
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "handoff to editor"}
    (tmp_path / "handed.json").write_bytes(
        content(*SPANS, one_span("h", attributes, parent="boss", at=(6, 7)))
    )
    _, text, _ = outcome(capsys, "show", "handed.json")
    calls, _, rest = text.partition("hand-off recorded as a tool")
    assert "handoff to editor" not in calls
    assert "handoff to editor" in rest
    _, text, _ = outcome(capsys, "show", "handed.json", "--json")
    assert json.loads(text)["tools"]["handoff to editor"] == 1
