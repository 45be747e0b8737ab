"""A replay of recorded traffic alerts when a fault comes, and names what fails."""

import json
from pathlib import Path

import fsspec
import msgspec
import pytest

from tests.goldens import SHARED
from tests.monitor.test_channels import Receiver, receiver
from trivium.cli.main import run_command
from trivium.monitor.monitored import monitored
from trivium.monitor.replay import BEGIN, Replayed, replay
from trivium.traces.readers.collection import read_paths
from trivium.traces.trace import Span, Trace

__all__ = ["receiver"]

TRACES = SHARED / "data" / "traces"

TOOLS = ("search", "refund", "book")


def trace(number: int, *, fault: bool = False, times: bool = False) -> Trace:
    """A trace of an agent that calls one of three tools; with the fault, "refund" fails."""
    tool = TOOLS[number % 3]
    ok = not (fault and tool == "refund")
    zero = BEGIN + 3600.0 * number if times else 0.0
    return Trace(
        trace_id=f"{number:032x}",
        spans=(
            Span(
                id="a", kind="agent", name="helper", start=zero, end=zero + 2, ok=ok, input=f"q{number}",
                output="done",
            ),
            Span(id="t", kind="tool", name=tool, parent="a", agent="helper", start=zero, end=zero + 1, ok=ok),
        ),
    )  # fmt: skip


def broken(traces: list[Trace], *, tool: str) -> list[Trace]:
    """The traces, and once more all of them; there those that use a tool fail."""
    changed = []
    for each in traces:
        hit = any(span.kind == "tool" and span.name == tool for span in each.spans)
        failed = tuple(
            msgspec.structs.replace(span, ok=False) if hit and span.parent is None else span
            for span in each.spans
        )
        changed.append(msgspec.structs.replace(each, spans=failed, trace_id=f"again {each.trace_id}"))
    return [*traces, *changed]


def replayed(traces: list[Trace], **monitor) -> Replayed:
    return replay(monitored({"name": "replay"}, monitor={"sample_rate": 1.0, **monitor}), traces, looks=20)


def test_a_fault_half_way_alerts_and_names_the_tool():
    traces = [trace(n, fault=n >= 120) for n in range(240)]
    found = replayed(traces)
    assert found.samples == 240
    first = found.messages[0]
    assert found.begin + 12 * 3600 < first.time < found.end
    assert (first.origin.facet, first.origin.value) == ("tool", "refund")
    assert abs(first.origin.since - (found.begin + 12 * 3600)) < 3600


def test_healthy_traffic_alerts_nobody():
    found = replayed([trace(n) for n in range(100)])
    assert found.messages == ()
    assert found.status.status == "healthy"


def test_traffic_runs_in_its_own_time():
    found = replayed([trace(n, times=True) for n in range(20)])
    assert not found.spread
    assert (found.begin, found.end) == (BEGIN, BEGIN + 19 * 3600 + 1)


def test_only_samples_are_scored():
    found = replayed([trace(n) for n in range(400)], sample_rate=0.1)
    assert 15 < found.samples < 70


def test_what_each_threshold_would_have_done():
    found = replayed([trace(n, fault=n >= 60) for n in range(120)])
    trials = {each.threshold: each for each in found.trials}
    assert trials[0.5].first_below is None
    assert trials[0.5].crossings == 0
    assert trials[0.95].first_below < trials[0.95].first_sure
    assert trials[0.95].first_below < trials[0.85].first_below


def shared_traces(pattern: str) -> list[Trace]:
    files = sorted(TRACES.glob(pattern))
    if not files:
        pytest.skip("the shared traces are not here")
    return [each for file in files for each in read_paths([file])[1]]


def test_a_day_of_tau_bench_with_a_broken_tool():
    traces = shared_traces("tau-bench/gpt-4o-airline*.json")
    found = replayed(broken(traces, tool="search_direct_flight"))
    first = found.messages[0]
    assert (first.origin.facet, first.origin.value) == ("tool", "search_direct_flight")
    assert first.time > found.begin + 12 * 3600


def test_a_day_of_agents_eval_with_a_broken_tool():
    traces = shared_traces("agents-eval/mas/*/trace.json") * 4
    found = replayed(broken(traces, tool="get_paper_content"))
    assert found.messages[0].origin.value == "get_paper_content"
    assert found.messages[0].time > found.begin + 12 * 3600


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(trace(n, fault=n >= 60)) + b"\n" for n in range(120)))
    return path


def test_the_command_says_what_would_have_alerted(file, capsys):
    assert run_command(["monitor", "replay", str(file), "--hours", "12", "--looks", "10"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "would have been sent" in shown
    assert "tool refund" in shown
    assert "pass rate below" in shown
    assert "120 traces over 11.9 hours, which state no times: spread evenly; 120 sampled and scored" in shown


def test_the_command_takes_a_suite_and_sends_only_if_asked(file, tmp_path, receiver: Receiver, capsys):
    suite = tmp_path / "suite.json"
    channels = [{"webhook": receiver.url}]
    suite.write_text(
        json.dumps({"name": "mine", "monitor": {"sample_rate": 1.0, "alerts": {"channels": channels}}})
    )
    words = ["monitor", "replay", str(file), "--looks", "4", "--suite", str(suite), "--json"]
    assert run_command(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["messages"][0]["monitor"] == "mine"
    assert receiver.requests == []
    assert run_command([*words, "--send"]) == 0
    assert len(receiver.requests) == json.loads(capsys.readouterr().out)["sent"] > 0


def test_the_sample_rate_can_be_given(file, capsys):
    words = ["monitor", "replay", str(file), "--sample-rate", "0.25", "--looks", "2", "--json"]
    assert run_command(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert 10 < found["samples"] < 60
    assert {message["time"] for message in found["messages"]} <= {found["begin"] + 43_200, found["end"]}


def test_files_in_object_storage_are_replayed_as_those_of_this_machine(file, capsys):
    memory, lines = fsspec.filesystem("memory"), file.read_bytes().splitlines(keepends=True)
    memory.pipe({"/traffic/a.jsonl": b"".join(lines[:50]), "/traffic/b.jsonl": b"".join(lines[50:])})
    found = []
    for source in (str(file), "memory://traffic/*.jsonl"):
        assert run_command(["monitor", "replay", source, "--looks", "4", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        times = [message["time"] for message in answer["messages"]]
        found.append((answer["traces"], answer["samples"], answer["begin"], answer["end"], times))
    memory.rm("/traffic", recursive=True)
    assert found[0] == found[1]
    assert found[0][0] == 120
    assert run_command(["monitor", "replay", "memory://traffic/*.jsonl"]) == 2
    assert "memory://traffic/*.jsonl: no file has such a name" in capsys.readouterr().err


def test_a_file_without_traces(tmp_path, capsys):
    assert run_command(["monitor", "replay", str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().err
