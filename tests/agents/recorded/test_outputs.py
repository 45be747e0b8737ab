import json

import msgspec
import pytest

from trivium.agents.recorded import open_recorded
from trivium.agents.recorded.outputs import RecordedOutputs, output_schema
from trivium.errors import OutputsError
from trivium.suites.settings import Limits, Settings
from trivium.suites.suite import Suite

SPAN = {"id": "s1", "kind": "tool", "name": "search", "start": 0.0, "end": 1.0}


@pytest.fixture
def suite():
    return Suite(
        name="s", cases=[{"id": "alpha", "input": "q"}, {"id": "beta", "input": "q"}, {"id": 7, "input": 1}]
    )


@pytest.fixture
def outputs(tmp_path, suite):
    """Writes lines (texts as they are, anything else as JSON) and opens them."""

    def write(*lines, suite=suite, name="outputs.jsonl"):
        path = tmp_path / name
        content = b"\n".join(
            line
            if isinstance(line, bytes)
            else line.encode()
            if isinstance(line, str)
            else json.dumps(line).encode()
            for line in lines
        )
        path.write_bytes(content)
        return RecordedOutputs([path], suite)

    return write


def attempts(recorded):
    return [attempt for _, attempt in recorded]


def problems(write, *lines, **options):
    with pytest.raises(OutputsError) as caught:
        write(*lines, **options)
    return [str(problem) for problem in caught.value.problems]


def test_every_field_of_a_line_arrives(outputs):
    line = {
        "case": "alpha",
        "repeat": 2,
        "output": "text",
        "seconds": 12.5,
        "trace": {"trace_id": "t", "spans": [SPAN]},
        "usage": {"input_tokens": 900, "output_tokens": 300, "cost_usd": 0.002},
        "reward": 1,
        "error": None,
        "metadata": {"model": "m"},
    }
    recorded = outputs(line)
    assert len(recorded) == 1
    ((case, attempt),) = recorded
    assert case.id == "alpha"
    assert msgspec.json.decode(msgspec.json.encode(attempt)) == {
        "case": "alpha",
        "repeat": 2,
        "output": "text",
        "seconds": 12.5,
        "trace": {"trace_id": "t", "spans": [SPAN]},
        "usage": {"input_tokens": 900, "output_tokens": 300, "cost_usd": 0.002},
        "reward": 1.0,
        "metadata": {"model": "m"},
    }


def test_a_file_can_be_gone_through_twice(outputs):
    recorded = outputs({"case": "alpha", "output": "a"}, {"case": "beta", "output": "b"})
    assert attempts(recorded) == attempts(recorded)


def test_blank_lines_a_byte_order_mark_and_a_missing_end_of_line_do_no_harm(outputs):
    recorded = outputs(
        b"\xef\xbb\xbf" + b'{"case": "alpha", "output": 1}', "", "  ", '{"case": "beta", "output": 2}'
    )
    assert [attempt.output for attempt in attempts(recorded)] == [1, 2]


def test_numbers_are_ids_too(outputs):
    assert attempts(outputs({"case": 7, "output": "x"}))[0].case == "7"


def test_numbers_are_ids_of_spans_too(outputs):
    trace = {"spans": [SPAN | {"id": 1}, SPAN | {"id": 2, "parent": 1}]}
    attempt = attempts(outputs({"case": "alpha", "output": "x", "trace": trace}))[0]
    assert [span.id for span in attempt.trace.spans] == ["1", "2"]


@pytest.mark.parametrize("output", [{"a": [1, None, True]}, [], 0, False, "", 1.5])
def test_any_json_value_is_an_output(outputs, output):
    attempt = attempts(outputs({"case": "alpha", "output": output}))[0]
    assert attempt.output == output
    assert not attempt.failed


@pytest.mark.parametrize("line", [{"case": "alpha"}, {"case": "alpha", "output": None, "error": ""}])
def test_nothing_recorded_is_a_failed_attempt(outputs, line):
    assert attempts(outputs(line))[0].error == "nothing came back"


def test_a_trace_or_a_verdict_without_an_output_is_no_failure(outputs):
    recorded = outputs(
        {"case": "alpha", "trace": {"spans": [SPAN]}},
        {"case": "beta", "reward": 0.0},
    )
    assert [attempt.failed for attempt in attempts(recorded)] == [False, False]


def test_an_error_marks_a_failed_attempt_and_its_secrets_are_masked(outputs):
    recorded = outputs(
        {"case": "alpha", "error": "401 with api_key=abcdef123456"},
        {"case": "beta", "output": "fine", "error": ""},
    )
    first, second = attempts(recorded)
    assert first.error == "401 with api_key=[masked]"
    assert second.error is None


def test_an_output_over_the_limit_is_a_failed_attempt(outputs):
    small = Suite(
        name="s", cases=[{"id": "alpha", "input": ""}], settings=Settings(limits=Limits(output_bytes=10))
    )
    attempt = attempts(outputs({"case": "alpha", "output": "x" * 11}, suite=small))[0]
    assert attempt.error == "the output is larger than 10 bytes (limits.output_bytes)"
    assert attempt.output is None


def test_what_stores_cannot_hold_is_replaced_and_flagged(outputs):
    attempt = attempts(
        outputs(r'{"case": "alpha", "output": "a\u0000b\ud800c", "metadata": {"k": "\u0000"}}')
    )[0]
    assert attempt.output == "a\u2400b\ufffdc"
    assert attempt.metadata == {"k": "\u2400"}
    assert set(attempt.flags) == {"nul", "lone_surrogates"}


def test_pairs_of_surrogates_are_characters(outputs):
    attempt = attempts(outputs(r'{"case": "alpha", "output": "\ud83d\ude00"}'))[0]
    assert (attempt.output, attempt.flags) == ("\U0001f600", ())


def test_a_trace_is_repaired_and_what_was_done_is_listed(outputs):
    trace = {"spans": [SPAN | {"parent": "gone"}, SPAN]}
    attempt = attempts(outputs({"case": "alpha", "output": "x", "trace": trace}))[0]
    assert {problem.kind for problem in attempt.trace.problems} == {"orphan", "duplicate_id"}


def test_a_trace_may_be_a_file_beside_the_outputs(outputs, tmp_path):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "one.json").write_text(json.dumps({"spans": [SPAN]}))
    for reference in ({"file": "traces/one.json"}, {"file": "traces/one.json", "format": "native"}):
        attempt = attempts(outputs({"case": "alpha", "output": "x", "trace": reference}))[0]
        assert [span.name for span in attempt.trace.spans] == ["search"]


@pytest.mark.parametrize("content", ["{", "[]", '{"spans": [{}]}', '[{"spans": []}, {"spans": []}]'])
def test_a_trace_file_that_cannot_be_read_costs_the_trace_not_the_attempt(outputs, tmp_path, content):
    (tmp_path / "t.json").write_text(content)
    attempt = attempts(outputs({"case": "alpha", "output": "x", "trace": {"file": "t.json"}}))[0]
    assert (attempt.output, attempt.trace, attempt.error) == ("x", None, None)
    assert attempt.flags == ("trace_left_out",)
    assert "t.json" in attempt.metadata["trace_error"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"case": "alpha"', "line 2, column 17: broken JSON: Expecting ',' delimiter"),
        ("[1]", "line 2: found a list of 1, expected a mapping"),
        ('{"output": "x"}', 'line 2: "case" is missing'),
        ('{"case": "alpha", "outptu": "x"}', 'line 2: unknown key "outptu". Did you mean "output"?'),
        ('{"case": "alpha", "anser": "x"}', 'line 2: unknown key "anser". Did you mean "answer"?'),
        ('{"case": "alpah", "output": "x"}', 'line 2: the suite has no case "alpah". Did you mean "alpha"?'),
        ('{"case": "", "output": "x"}', "line 2: case: "),
        ('{"case": "alpha", "repeat": -1}', "line 2: repeat: found the number -1"),
        ('{"case": "alpha", "repeat": 1e30}', "line 2: repeat: found the number 1e+30"),
        (
            '{"case": "alpha", "seconds": -0.5}',
            "line 2: seconds: found the number -0.5, expected a number of at least 0",
        ),
        ('{"case": "alpha", "seconds": 1e999}', "line 2: broken JSON: 1e999 is too large a number"),
        ('{"case": "alpha", "seconds": NaN}', "line 2: broken JSON: NaN is no JSON number"),
        ('{"case": "alpha", "reward": "1"}', 'line 2: reward: found the text "1", expected a number'),
        ('{"case": "alpha", "usage": {"tokens": 1}}', 'line 2: usage: unknown key "tokens"'),
        ('{"case": "alpha", "usage": {"cost_usd": -1}}', "line 2: usage.cost_usd: found the number -1"),
        ('{"case": "alpha", "error": 500}', "line 2: error: found the number 500, expected text"),
        ('{"case": "alpha", "metadata": []}', "line 2: metadata: found an empty list, expected a mapping"),
        (
            '{"case": "alpha", "trace": 3}',
            "line 2: trace: found the number 3, expected a mapping",
        ),
        (
            '{"case": "alpha", "trace": {"span": []}}',
            'line 2: trace: unknown key "span". Did you mean "spans"?',
        ),
        (
            '{"case": "alpha", "trace": {"spans": [{"id": "a", "kind": "tol", "name": "n"}]}}',
            'line 2: trace: spans[0].kind: found the text "tol", expected "agent" or',
        ),
        ('{"case": "alpha", "trace": {"file": "gone.json"}}', "line 2: trace.file: there is no file"),
        ('{"case": "alpha", "trace": {"file": 3}}', "line 2: trace.file: found the number 3, expected text"),
        ('{"case": "alpha", "trace": {"file": ".", "formt": "x"}}', 'line 2: trace: unknown key "formt"'),
        (
            '{"case": "alpha", "trace": {"file": ".", "format": "x"}}',
            'line 2: trace.format: no trace format is called "x"',
        ),
        (b'{"case": "alpha", "output": "\xff"}', "line 2: byte 0xff at offset 29 is not valid UTF-8"),
        (b'{"case": "alpha", "trace": {"spans": [], "metadata": {"a": "\xff"}}}', "line 2"),
        ('{"case": "alpha", "output": ' + "[" * 90_000 + "]" * 90_000 + "}", "line 2: is nested too deeply"),
        (
            '{"case": "alpha", "trace": ' + '{"a":' * 90_000 + "1" + "}" * 90_001,
            "line 2: is nested too deeply",
        ),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else repr(value)[:40],
)
def test_a_wrong_line_is_named_with_what_was_found_and_expected(outputs, line, says):
    (problem,) = problems(outputs, {"case": "beta", "output": "fine"}, line)
    assert problem.startswith(says)


def test_all_mistakes_of_a_file_are_reported_at_once_and_those_beyond_twenty_are_counted(outputs):
    lines = [{"case": f"c{i}", "outptu": "x"} for i in range(30)]
    with pytest.raises(OutputsError) as caught:
        outputs(*lines)
    assert len(caught.value.problems) == 20
    assert caught.value.left_out == 10
    assert "… and 10 more" in str(caught.value)


def test_a_duplicate_attempt_names_both_lines(outputs):
    assert problems(
        outputs,
        {"case": "alpha", "output": "a"},
        "",
        {"case": "alpha", "repeat": 1, "output": "b"},
        {"case": "alpha", "repeat": 0, "output": "c"},
        {"case": "alpha", "output": "d"},
    ) == [
        'line 4: duplicate of line 1: case "alpha", repeat 0',
        'line 5: duplicate of line 1: case "alpha", repeat 0',
    ]


def test_broken_json_in_line_4711_is_named(outputs, suite):
    lines = [{"case": "alpha", "repeat": i, "output": "x"} for i in range(4710)]
    (problem,) = problems(outputs, *lines, '{"case": "alpha", "repeat": 4710, "output": "x')
    assert problem.startswith("line 4711, column 45: broken JSON")


def test_a_missing_file_names_its_neighbour(outputs, tmp_path, suite):
    outputs({"case": "alpha", "output": "x"})
    with pytest.raises(OutputsError, match='Did you mean "outputs.jsonl"'):
        RecordedOutputs([tmp_path / "output.jsonl"], suite)


def test_an_empty_file_is_a_mistake(outputs):
    assert problems(outputs, "", " ") == ["holds no output"]


def test_a_file_without_permission_is_reported(outputs, tmp_path, suite, monkeypatch):
    outputs({"case": "alpha", "output": "x"})

    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)  # root may read anything
    with pytest.raises(OutputsError, match="cannot be read: Permission denied"):
        RecordedOutputs([tmp_path / "outputs.jsonl"], suite)


def test_a_file_that_changes_after_the_check_is_not_read(outputs, tmp_path):
    recorded = outputs({"case": "alpha", "output": "x"})
    (tmp_path / "outputs.jsonl").write_text('{"case": "gamma"}')
    with pytest.raises(OutputsError, match="has changed"):
        list(recorded)


def test_a_line_too_long_to_hold_is_refused(outputs, monkeypatch):
    monkeypatch.setattr("trivium.records.lines.LONGEST_LINE", 100)
    (problem,) = problems(outputs, {"case": "alpha", "output": "x"}, {"case": "beta", "output": "x" * 100})
    assert problem == "line 2: is longer than 100 bytes: one record a line"


def test_the_schema_accepts_what_the_reader_accepts(outputs):
    jsonschema = pytest.importorskip("jsonschema")
    schema = output_schema()
    jsonschema.validate({"case": 7, "output": {"any": 1}, "usage": {"input_tokens": 3}}, schema)
    for wrong in ({"output": "x"}, {"case": "a", "outptu": 1}, {"case": "a", "repeat": -1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_a_plain_file_is_a_source(outputs, suite, tmp_path):
    outputs({"case": "alpha", "output": "x"})
    ((case, attempt),) = open_recorded(str(tmp_path / "outputs.jsonl"), suite)
    assert (case.id, attempt.output) == ("alpha", "x")
