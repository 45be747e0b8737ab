"""Traces are joined with the cases of a suite, and one trace of a file is named in a file of outputs."""

import json
import logging
from pathlib import Path

import pytest

from tests.runs.trace_scores.samples import call, trace, write
from trivium.agents.recorded import holds_traces, open_recorded
from trivium.agents.recorded.record import attempt_from, read_line
from trivium.cli.main import run_command
from trivium.errors import InputError, OutputsError
from trivium.suites.suite import Suite


def suite(*ids):
    return Suite.load([{"id": id_, "input": "Where?", "references": ["On its way."]} for id_ in ids])


def attempts(path, *ids):
    return [(case.id, attempt) for case, attempt in open_recorded(str(path), suite(*ids))]


@pytest.mark.parametrize(
    "stated",
    [
        {"id": "c1"},
        {"id": "x", "case": "c1"},
        {"id": "x", "case_id": "c1"},
        {"id": "x", "metadata": {"trivium.case": "c1"}},
        {"id": "x", "tags": ["beta", "case:c1"]},
        {"id": "x", "tags": ["c1"]},
    ],
)
def test_a_trace_names_its_case_by_id_metadata_or_tag(tmp_path, stated):
    path = write(tmp_path / "t.jsonl", trace(stated.pop("id"), **stated))
    ((case, attempt),) = attempts(path, "c1", "c2")
    assert (case, attempt.output, attempt.seconds) == ("c1", "On its way.", 10)


def test_a_case_named_in_the_outermost_span_counts(tmp_path):
    made = trace("x")
    made["spans"][0]["attributes"] = {"case_id": 7}
    assert [case for case, _ in attempts(write(tmp_path / "t.jsonl", made), "7")] == ["7"]


def test_further_traces_of_a_case_are_its_repeats(tmp_path):
    path = write(tmp_path / "t.jsonl", *[trace(f"x{n}", case="c1") for n in range(3)])
    recorded = open_recorded(f"traces:{path}", suite("c1"))
    assert len(recorded) == 3
    assert [attempt.repeat for _, attempt in recorded] == [0, 1, 2]


def test_traces_of_no_case_are_left_out_with_a_warning(tmp_path, caplog):
    path = write(tmp_path / "t.jsonl", trace("c1"), trace("other"))
    with caplog.at_level(logging.WARNING):
        assert [case for case, _ in attempts(path, "c1")] == ["c1"]
    assert "left out, because they fit no case: other" in caplog.text


def test_no_trace_of_any_case_is_refused_with_the_ways_to_name_one(tmp_path):
    path = write(tmp_path / "t.jsonl", trace("casse1"), trace("other"))
    with pytest.raises(OutputsError) as raised:
        attempts(path, "case1", "case2")
    message = str(raised.value)
    assert 'Did you mean "case1"?' in message
    assert '"case_id"' in message
    assert "Traces: casse1, other; cases: case1, case2" in message
    assert f"trivium traces score {path}" in message


def test_an_unreadable_trace_among_them_is_refused(tmp_path):
    path = write(tmp_path / "t.jsonl", trace("c1"))
    path.write_text(path.read_text() + "{broken\n", encoding="utf-8")
    with pytest.raises(OutputsError, match="line 2"):
        attempts(path, "c1")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), ("", "is a folder: expected a file of outputs, or traces")],
)
def test_a_missing_or_empty_source_is_refused(tmp_path, content, message):
    path = tmp_path / "t.jsonl"
    if content is not None:
        (tmp_path / "folder").mkdir()
        path = tmp_path / "folder"
    with pytest.raises(InputError, match=message):
        open_recorded(f"traces:{path}", suite("c1"))


def test_traces_have_no_people_to_leave_out(tmp_path):
    path = write(tmp_path / "t.jsonl", trace("c1"))
    with pytest.raises(OutputsError, match="no people's outputs"):
        open_recorded(str(path), suite("c1"), leave_one_out=True)


def test_a_file_of_outputs_is_none_of_traces_even_if_its_lines_hold_traces(tmp_path):
    outputs = tmp_path / "o.jsonl"
    outputs.write_text(
        json.dumps({"case": "c1", "output": '{"resourceSpans": []}', "trace": trace("x")}) + "\n"
    )
    assert not holds_traces(outputs)
    assert holds_traces(write(tmp_path / "t.jsonl", trace("c1")))
    pretty = tmp_path / "pretty.json"
    pretty.write_text(json.dumps(trace("c1"), indent=2))
    assert holds_traces(pretty)


class TestOneTraceOfAFile:
    def attempt(self, tmp_path, named):
        write(tmp_path / "t.jsonl", trace("a", call("1", "search", (0, 1))), trace("b"))
        (tmp_path / "o.jsonl").write_text(
            json.dumps({"case": "c1", "output": "x", "trace": {"file": "t.jsonl", **named}}) + "\n"
        )
        ((_, attempt),) = attempts(tmp_path / "o.jsonl", "c1")
        return attempt

    def test_is_named_by_its_id(self, tmp_path):
        assert len(self.attempt(tmp_path, {"trace_id": "a"}).trace.tool_calls) == 1
        assert self.attempt(tmp_path, {"trace_id": "b", "format": "native"}).trace.tool_calls == ()

    def test_must_be_named_if_there_are_several(self, tmp_path):
        error = self.attempt(tmp_path, {}).metadata["trace_error"]
        assert 'expected one trace, found 2: name one of them with "trace_id" ("a", "b")' in error

    def test_that_is_not_there_is_an_error_with_the_nearest(self, tmp_path):
        write(tmp_path / "t.jsonl", trace("a"))
        error = self.attempt(tmp_path, {"trace_id": "aa"}).metadata["trace_error"]
        assert 'no trace has the id "aa". Did you mean "a"?' in error
        assert 'It has "a", "b".' in self.attempt(tmp_path, {"trace_id": "zzz"}).metadata["trace_error"]

    def test_is_read_again_when_the_file_has_changed(self, tmp_path):
        self.attempt(tmp_path, {"trace_id": "a"})
        write(tmp_path / "t.jsonl", trace("c"))
        ((_, attempt),) = attempts(tmp_path / "o.jsonl", "c1")
        assert 'no trace has the id "a"' in attempt.metadata["trace_error"]


@pytest.fixture
def _files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.jsonl", trace("c1"), trace("c2"))
    (tmp_path / "cases.jsonl").write_text('{"id": "c1", "input": "?", "references": ["On its way."]}\n')


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("outputs", ["t.jsonl", "traces:t.jsonl", "native.jsonl"])
def test_score_takes_a_file_of_traces_for_outputs(capsys, outputs):
    assert run_command(["traces", "import", "t.jsonl", "-o", "native.jsonl"]) == 0
    capsys.readouterr()
    arguments = ["score", "cases.jsonl", "--outputs", outputs, "--metrics", "jaccard,completed", "--json"]
    assert run_command(arguments) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert (metrics["jaccard"]["mean"], metrics["completed"]["n"]) == (1, 1)


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("command", [["score"], ["run", "--agent", "cmd:true"]])
@pytest.mark.parametrize("source", ["t.jsonl", "traces:t.jsonl", "folder"])
def test_traces_in_place_of_a_suite_point_at_traces_score(capsys, source, command):
    Path("folder").mkdir()
    Path("folder/t.jsonl").write_bytes(Path("t.jsonl").read_bytes())
    assert run_command([*command, source]) == 2
    message = " ".join(capsys.readouterr().err.split())
    path = source.removeprefix("traces:")
    assert f"{path} holds traces, and no cases" in message
    assert f"trivium traces score {path}" in message
    assert f"--outputs traces:{path}" in message


CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "The capital?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "Error: none"},
    {"role": "assistant", "content": [{"type": "text", "text": "Paris"}, {"type": "audio", "audio": {}}]},
]


@pytest.mark.parametrize(
    ("line", "output", "calls"),
    [
        ({"messages": CHAT}, "Paris", [("look", {"q": 1}, False)]),
        ({"messages": CHAT, "output": "Rome"}, "Rome", [("look", {"q": 1}, False)]),
        ({"messages": CHAT, "trace": {"spans": []}}, "Paris", []),
        ({"messages": CHAT[:3]}, None, [("look", {"q": 1}, None)]),
        ({"messages": [{"role": "owl", "content": "hoo"}]}, None, []),
    ],
)
def test_of_a_chat_the_last_answer_is_the_output_and_its_calls_are_the_trace(line, output, calls):
    parsed, problems, flags = read_line(json.dumps({"case": "1", **line}).encode(), "line 1")
    assert problems == []
    attempt = attempt_from(parsed, flags, folder=Path(), limit=1000)
    assert attempt.output == output
    assert [(call.name, call.input, call.ok) for call in attempt.trace.tool_calls] == calls


def test_parts_of_a_chat_that_are_no_text_are_counted():
    parsed, _, flags = read_line(json.dumps({"case": "1", "messages": CHAT}).encode(), "line 1")
    trace = attempt_from(parsed, flags, folder=Path(), limit=1000).trace
    assert [each.what for each in trace.problems] == ["parts that are no text are left out: 1 audio"]
