"""Logs of Inspect: samples become cases, epochs repeats, events traces; hostile archives are refused."""

import json
import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import trivium as tv
from trivium.agents.recorded.sources import open_recorded
from trivium.errors import InputError, ItemsError, MissingExtra, OutputsError, SuiteError, TraceError
from trivium.inspect_logs import archive
from trivium.inspect_logs.log import Log
from trivium.runs.items.reading import read_items
from trivium.traces.facts import trace_facts
from trivium.traces.readers import read_path
from trivium.traces.readers.inspect_logs.sample import trace_of_sample

HEADER = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m", "created": "2026-01-01"}}


def sample(**fields):
    return {"id": "a", "epoch": 1, "input": "?", "target": "x"} | fields


def pack(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as packed:
        for name, value in members.items():
            packed.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return path


def log_of(path, *samples, **header):
    return pack(
        path, {"header.json": HEADER | header} | {f"samples/{n}.json": s for n, s in enumerate(samples)}
    )


def attempts(path):
    suite = tv.Suite.load(f"inspect:{path}")
    return suite, [attempt for _, attempt in open_recorded(f"inspect:{path}", suite)]


def test_samples_are_cases_and_epochs_repeats(logs):
    suite, found = attempts(logs / "agents.eval")
    assert [(case.id, case.input, case.references) for case in sorted(suite, key=lambda case: case.id)] == [
        ("a", "1+2?", ("3",)),
        ("b", "2+1?", ("3", "three")),
    ]
    assert suite.settings.repeats == 2
    assert sorted((a.case, a.repeat) for a in found) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert all("3" in attempt.output and attempt.seconds > 0 for attempt in found)
    # six model calls each, the judge's among them: Inspect counts it for the sample
    assert {(a.usage.input_tokens, a.usage.output_tokens) for a in found} == {(4 * 13 + 2 * 7, 4 * 5 + 2 * 2)}


def test_an_error_of_inspect_is_a_failed_attempt(logs):
    _, found = attempts(logs / "broken.eval")
    assert [attempt.failed for attempt in sorted(found, key=lambda a: a.case)] == [False, True]


@pytest.mark.parametrize("name", ["agents.eval", "agents.json"])
def test_events_are_a_trace_without_what_scorers_did(logs, name):
    format, traces = read_path(logs / name)  # noqa: A001
    facts = trace_facts(traces, format=format)
    assert (facts.format, facts.traces) == ("inspect", 4)
    assert facts.agent_runs == {"react": 4, "helper": 4}
    assert facts.tools == {"add": 8, "helper": 4, "submit": 4}
    assert facts.failed_tool_spans == 4
    assert facts.kinds["llm"] == 20
    assert (facts.llm_input_tokens, facts.llm_output_tokens) == (4 * (4 * 13 + 7), 4 * (4 * 5 + 2))
    assert facts.agent_to_agent == [("react", "helper", 4)]
    assert facts.problems == []
    below = {span.name: span.parent for span in traces[0].spans if span.kind == "agent"}
    calls = {span.id: span.name for span in traces[0].spans if span.kind == "tool"}
    assert calls[below["helper"]] == "helper"


def test_a_hand_off_is_no_tool_call(logs):
    (trace,) = read_path(logs / "handed.eval")[1]
    assert [call.name for call in trace.tool_calls] == ["submit"]
    assert ("react", "helper", "task_request") in [(m.sender, m.receiver, m.type) for m in trace.messages]


def test_calls_outside_any_agent_are_the_solvers(logs):
    traces = read_path(logs / "plain.eval")[1]
    assert trace_facts(traces).agent_runs == {"generate": 6}


def test_a_log_without_samples_says_so(logs):
    with pytest.raises(SuiteError, match="no sample"):
        tv.Suite.load(f"inspect:{logs / 'unlogged.eval'}")


def test_changed_scores_are_items_to_trust_by(logs):
    table = read_items(f"inspect:{logs / 'edited.eval'}")
    assert list(zip(table.pred, table.gt, strict=True)) == [(0.0, 1.0), (1.0, 0.0), (0.0, 1.0)]
    with pytest.raises(ItemsError, match="nobody changed"):
        read_items(f"inspect:{logs / 'plain.eval'}")


def test_two_scorers_are_judgement_and_truth(logs):
    table = read_items(f"inspect:{logs / 'agents.eval'}", mode="judged:includes")
    assert sorted(map(str, table.pred)) == ["0.5", "0.5", "nan", "nan"]  # it abstained on one of the samples
    assert list(table.gt) == [1.0] * 4
    with pytest.raises(ItemsError, match='Did you mean "judged"'):
        read_items(f"inspect:{logs / 'agents.eval'}", mode="juged:includes")
    with pytest.raises(ItemsError, match="PRED:TRUTH"):
        read_items(f"inspect:{logs / 'agents.eval'}", mode="judged")


def at(second):
    return f"2024-05-05T07:59:{second}"


OLD = sample(
    messages=[],
    transcript={
        "content": {"h": "long text"},
        "events": [
            {"event": "step", "action": "begin", "type": "solver", "name": "plan", "timestamp": at(35)},
            {
                "event": "model",
                "model": "gpt",
                "timestamp": at(36),
                "output": {
                    "choices": [{"message": {"content": [{"type": "text", "text": "attachment://h"}]}}],
                    "time": 2.5,
                },
            },
            {
                "event": "tool",
                "function": "bash",
                "arguments": {"cmd": "attachment://h"},
                "result": "ok",
                "timestamp": at(39),
                "completed": at(41),
                "events": [{"event": "model", "model": "inner", "timestamp": at(40), "output": {}}],
            },
            {"event": "step", "action": "end", "type": "solver", "name": "plan", "timestamp": at(42)},
            {"event": "step", "action": "begin", "type": "scorer", "name": "s", "timestamp": at(43)},
            {"event": "model", "model": "judge", "timestamp": at(43), "output": {}},
            {"event": "step", "action": "end", "type": "scorer", "name": "s", "timestamp": at(44)},
        ],
    },
)


def test_events_of_older_versions_nest_in_steps_and_tools():
    trace = trace_of_sample(OLD)
    assert [(s.kind, s.name) for s in trace.spans] == [
        ("agent", "plan"),
        ("llm", "gpt"),
        ("tool", "bash"),
        ("llm", "inner"),
    ]
    plan, model, bash, inner = trace.spans
    assert (plan.end - plan.start, model.end - model.start, inner.parent) == (7.0, 2.5, bash.id)
    assert (model.output, bash.input) == ("long text", {"cmd": "long text"})


def test_messages_stand_in_for_events_that_were_not_kept():
    trace = trace_of_sample(
        sample(
            messages=[
                {"role": "user", "content": "?"},
                {
                    "role": "assistant",
                    "model": "m",
                    "content": "",
                    "source": "generate",
                    "tool_calls": [
                        {"id": "c", "function": "f", "arguments": {"x": 1}},
                        {"id": "d", "function": "g"},
                        {"id": "e", "function": "h"},
                    ],
                },
                {
                    "role": "tool",
                    "tool_call_id": "d",
                    "content": "no",
                    "error": {"type": "timeout", "message": "no"},
                },
                {"role": "tool", "tool_call_id": "c", "content": "yes"},
                {"role": "tool", "tool_call_id": "zz", "content": "?"},
            ]
        )
    )
    assert [(s.kind, s.name, s.ok) for s in trace.spans] == [
        ("agent", "agent", True),
        ("llm", "m", True),
        ("tool", "f", True),
        ("tool", "g", False),
        ("tool", "h", None),
    ]


def test_pending_events_are_unfinished():
    events = [
        {"event": "span_begin", "id": "s", "type": "agent", "name": "a", "timestamp": "2026-01-01T00:00:00"},
        {
            "event": "tool",
            "function": "f",
            "span_id": "s",
            "timestamp": "2026-01-01T00:00:01",
            "pending": True,
        },
    ]
    trace = trace_of_sample(sample(events=events))
    assert [span.ok for span in trace.spans] == [None, None]
    assert {problem.kind for problem in trace.problems} == {"unfinished"}


def test_spans_nested_by_the_thousand_are_read_without_recursion():
    count = 20_000
    begin = [
        {
            "event": "span_begin",
            "id": f"s{n}",
            "parent_id": f"s{n - 1}" if n else None,
            "name": "x",
            "type": "agent" if n % 2 else "other",
        }
        for n in range(count)
    ]
    events = [*begin, *({"event": "tool", "function": "f", "span_id": f"s{n}"} for n in range(count))]
    assert trace_facts([trace_of_sample(sample(events=events))]).max_depth == count // 2 + 2


def test_a_circle_of_spans_ends():
    events = [
        {"event": "span_begin", "id": "a", "parent_id": "b", "name": "x"},
        {"event": "span_begin", "id": "b", "parent_id": "a", "name": "y"},
        {"event": "model", "model": "m", "span_id": "a"},
    ]
    assert trace_facts([trace_of_sample(sample(events=events))]).kinds == {"agent": 1, "llm": 1}


def test_a_log_in_progress_is_read_as_far_as_it_is(tmp_path):
    path = pack(
        tmp_path / "x.eval",
        {"_journal/start.json": HEADER | {"status": "started"}, "samples/a.json": sample()},
    )
    assert (Log(path).status, len(list(Log(path).samples()))) == ("started", 1)
    assert read_path(path)[0] == "inspect"


@pytest.mark.parametrize(
    ("samples", "what"),
    [
        ([sample(id=None)], "id"),
        ([sample(id=True)], "id"),
        ([sample(epoch=0)], "epoch"),
        ([sample(epoch="1")], "epoch"),
        ([[1]], "expected a sample"),
        ([b'{"id": '], "no JSON"),
        ([b"[" * 200_000], "too deep"),
        ([sample(), sample()], "stands already"),
    ],
)
def test_a_sample_that_is_none_is_named(tmp_path, samples, what):
    path = log_of(tmp_path / "x.eval", *samples)
    with pytest.raises(InputError, match=what) as raised:
        attempts(path)
    assert "samples/" in str(raised.value)


def test_samples_that_the_suite_lacks_are_named(tmp_path):
    path = log_of(tmp_path / "x.eval", sample(id="sample-1"))
    suite = tv.Suite(name="s", cases=[{"id": "sample-2", "input": "?"}])
    with pytest.raises(OutputsError, match='no case "sample-1".*Did you mean "sample-2"'):
        open_recorded(f"inspect:{path}", suite)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PK\x03\x04", "no zip file"),
        (b"PK\x03\x04" + b"\0" * 500, "no zip file"),
        (b"", "no JSON"),
        (b"[]", "no log"),
        (b'{"eval": 1}', "no log"),
        (b"\xff", "no JSON"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, content, what):
    path = tmp_path / "x.eval"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=what):
        Log(path)
    with pytest.raises(SuiteError):
        tv.Suite.load(f"inspect:{path}")


def test_a_zip_of_something_else_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"header\.json"):
        Log(pack(tmp_path / "x.eval", {"a.txt": b"hello"}))
    with pytest.raises(TraceError, match="no such file"):
        Log(tmp_path / "missing.eval")
    with pytest.raises(TraceError, match="no file"):
        Log(tmp_path)


def test_a_member_outside_its_folder_is_never_looked_at(tmp_path):
    members = {
        "header.json": HEADER,
        "../evil.json": b"x",
        "/samples/a.json": b"x",
        "samples/../b.json": b"x",
    }
    assert list(Log(pack(tmp_path / "x.eval", members)).samples()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["x.eval"]


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_every_compression_of_zip_files_is_read(tmp_path, compression):
    path = pack(tmp_path / "x.eval", {"header.json": HEADER, "samples/a.json": sample()}, compression)
    assert [found.id for found in Log(path).samples()] == ["a"]


def zstandard_zip(path, name, packed, said):
    """A zip of one member, compressed with Zstandard and lying about its size."""
    head = (
        struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 63, 0, 93, 0, 0, 0, len(packed), said, len(name), 0)
        + name
    )
    entry = struct.pack(
        "<4sHHHHHHIIIHHHHHII",
        b"PK\x01\x02",
        63,
        63,
        0,
        93,
        0,
        0,
        0,
        len(packed),
        said,
        len(name),
        0,
        0,
        0,
        0,
        0,
        0,
    )
    end = struct.pack(
        "<4sHHHHIIH", b"PK\x05\x06", 0, 0, 1, 1, len(entry) + len(name), len(head) + len(packed), 0
    )
    path.write_bytes(head + packed + entry + name + end)
    return path


def test_zstandard_in_several_frames_is_read(tmp_path):
    content = json.dumps(HEADER).encode()
    pack_ = zstandard.ZstdCompressor().compress
    path = zstandard_zip(
        tmp_path / "x.eval", b"header.json", pack_(content[:20]) + pack_(content[20:]), len(content)
    )
    assert Log(path).task == "t"


def test_without_zstandard_one_line_says_what_to_install(tmp_path, monkeypatch):
    path = zstandard_zip(tmp_path / "x.eval", b"header.json", zstandard.ZstdCompressor().compress(b"{}"), 2)
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[inspect\]"'):
        Log(path)


@pytest.mark.parametrize("zstd", [True, False])
def test_a_bomb_is_stopped_by_what_it_unpacks_to(tmp_path, monkeypatch, zstd):
    monkeypatch.setattr(archive, "MAX_MEMBER_BYTES", 10_000)
    zeros = b"0" * 5_000_000
    path = tmp_path / "x.eval"
    if zstd:
        zstandard_zip(path, b"header.json", zstandard.ZstdCompressor().compress(zeros), 5)
    else:
        pack(path, {"header.json": zeros})
    with pytest.raises(TraceError, match="more than 10,000 bytes"):
        Log(path)


def test_a_file_of_many_large_members_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_TOTAL_BYTES", 50_000)
    path = log_of(tmp_path / "x.eval", *(sample(input="x" * 10_000, id=n) for n in range(10)))
    with pytest.raises(TraceError, match="more than"):
        list(Log(path).samples())


def test_limits_of_files_and_members_hold(tmp_path, monkeypatch):
    path = log_of(tmp_path / "x.eval", sample())
    monkeypatch.setattr(archive, "MAX_MEMBERS", 1)
    with pytest.raises(TraceError, match="2 members"):
        Log(path)
    monkeypatch.setattr(archive, "MAX_FILE_BYTES", 10)
    with pytest.raises(TraceError, match="at most 10"):
        Log(path)
    whole = tmp_path / "x.json"
    whole.write_text(json.dumps(HEADER), encoding="utf-8")
    monkeypatch.setattr("trivium.inspect_logs.log.MAX_JSON_BYTES", 10)
    with pytest.raises(TraceError, match="more than 10 bytes"):
        Log(whole)


@pytest.mark.parametrize("name", ["agents.eval", "agents.json"])
def test_a_log_cut_at_every_kilobyte_is_read_or_refused(logs, tmp_path, name):
    content = (logs / name).read_bytes()
    path = tmp_path / name
    for length in range(0, len(content), max(1024, len(content) // 60)):
        path.write_bytes(content[:length])
        with pytest.raises(InputError):
            read_path(path)


@given(st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 255)), min_size=1, max_size=30))
def test_a_log_with_bytes_changed_is_read_or_refused(logs, tmp_path_factory, changes):
    content = bytearray((logs / "plain.eval").read_bytes())
    for place, value in changes:
        content[place % len(content)] = value
    path = Path(tmp_path_factory.getbasetemp()) / "changed.eval"
    path.write_bytes(content)
    with suppress(InputError):
        read_path(path, "inspect")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = """event id parent_id span_id uuid name type function timestamp completed output action arguments
events model"""
event = st.dictionaries(
    st.sampled_from(KEYS.split()),
    values
    | st.sampled_from(["tool", "model", "step", "agent", "span_begin", "span_end", "begin", "end", "a", "b"]),
    max_size=8,
)


@given(
    st.lists(event | values, max_size=12), st.dictionaries(st.sampled_from(sorted(OLD)), values, max_size=4)
)
def test_no_event_breaks_the_reader(events, fields):
    trace_facts([trace_of_sample(fields | {"events": events})])


def test_fifty_thousand_events_are_read():
    events = [{"event": "span_begin", "id": "s", "type": "agent", "name": "a"}]
    events += [{"event": "tool", "function": f"f{n % 9}", "span_id": "s"} for n in range(50_000)]
    assert len(trace_of_sample(sample(events=events)).spans) == 50_001
