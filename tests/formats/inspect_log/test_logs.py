"""Logs of Inspect: samples become cases, epochs repeats, events traces, and values the scores of a run."""

import json
import math
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trivium as tv
from tests.formats.inspect_log.conftest import VALUES
from tests.formats.inspect_log.packed import HEADER, attempts, log_of, pack, sample
from trivium.agents.recorded import open_recorded
from trivium.errors import InputError, ItemsError, OutputsError, SuiteError
from trivium.formats.inspect_log.archive import Log
from trivium.formats.inspect_log.samples import as_number, scores_of
from trivium.formats.inspect_log.traces import trace_of_sample
from trivium.runs.items.files import read_items
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers.collection import read_path


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
    with pytest.raises(ItemsError, match="no score was edited"):
        read_items(f"inspect:{logs / 'plain.eval'}")


def test_two_scorers_are_judgement_and_truth(logs):
    table = read_items(f"inspect:{logs / 'agents.eval'}", mode="judged:includes")
    assert sorted(map(str, table.pred)) == ["0.5", "0.5", "nan", "nan"]  # it abstained on one of the samples
    assert list(table.gt) == [1.0] * 4
    assert table.sides == ("judged", "includes")  # a second scorer is nobody's person
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


def test_messages_are_read_if_events_are_missing():
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
    assert len(list(Log(path).samples())) == 1
    assert read_path(path)[0] == "inspect"


@pytest.mark.parametrize(
    ("samples", "what"),
    [
        ([sample(id=None)], "id"),
        ([sample(id=True)], "id"),
        ([sample(epoch=0)], "epoch"),
        ([sample(epoch="1")], "epoch"),
        ([[1]], "expected a sample"),
        ([b'{"id": '], "not valid JSON"),
        ([b"[" * 200_000], "too deep"),
        ([sample(), sample()], "duplicate of"),
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


def test_a_value_counts_as_it_does_for_inspect(logs):
    numbers = json.loads((logs / "numbers.json").read_text())
    assert dict(enumerate(map(as_number, VALUES))) == dict(enumerate(numbers))


@pytest.mark.parametrize("value", ["maybe", "", None, [1], {"a": 1}, math.nan, math.inf, "nan", 10**400])
def test_what_has_no_value_gets_none(value):
    assert as_number(value) is None


def means(run):
    return {name: metric.mean for name, metric in run.summary().metrics.items()}


@pytest.fixture
def run(logs, tmp_path):
    def evaluate(name):
        source = f"inspect:{logs / name}"
        return tv.evaluate(source, outputs=source, store=f"sqlite:///{tmp_path / 'store.db'}")

    return evaluate


@pytest.mark.parametrize("name", ["plain.eval", "edited.eval"])
def test_means_are_those_that_inspect_reports(logs, run, name):
    said = json.loads((logs / "means.json").read_text())[name]
    reported = {f"inspect.{scorer}": mean for scorer, mean in said.items()}
    found = means(run(name))
    assert {metric: found[metric] for metric in reported} == pytest.approx(reported)
    assert found["success"] == pytest.approx(reported["inspect.match"])


def test_scores_beyond_one_and_unscored_ones_are_no_values(run):
    metrics = run("agents.eval").summary().metrics
    assert (metrics["inspect.parts.style"].mean, metrics["inspect.parts.style"].n) == (0.5, 4)
    assert metrics["inspect.parts.length"].n == 0
    assert metrics["inspect.parts.length"].status == {"ok": 2, "abstained": 2}
    assert (metrics["inspect.judged"].mean, metrics["inspect.judged"].n) == (0.5, 2)
    assert metrics["inspect.judged"].status == {"ok": 2, "abstained": 2}


def test_an_archive_and_a_document_hold_the_same(logs):
    archived, whole = Log(logs / "agents.eval"), Log(logs / "agents.json")
    assert (archived.task, archived.headline) == (whole.task, whole.headline)
    pairs = [
        sorted(((s.id, s.epoch, repr(scores_of(s.raw))) for s in log.samples()), key=repr)
        for log in (archived, whole)
    ]
    assert pairs[0] == pairs[1]


def test_a_log_of_years_ago_holds_one_score_without_a_name():
    stated = {"value": 1.0, "raw": "C", "answer": "4"}
    assert scores_of({"score": {"value": "C", "answer": "4"}}) == [("inspect.score", stated)]
    assert scores_of({"scores": None}) == []


def test_recorded_scores_are_not_metrics_of_other_suites(run):
    run("plain.eval")
    suite = tv.Suite(name="s", cases=[{"id": "1", "input": "?"}])
    from trivium.metrics.registry import default_metrics

    assert not [name for name in default_metrics(suite.settings) if name.startswith("inspect.")]
    assert tv.score("inspect.match", output="x").status == "skipped"


def test_two_logs_are_compared(logs, run):
    found = tv.compare(run("plain.eval"), run("edited.eval"))
    assert found.metrics["inspect.match"].delta == pytest.approx(1 / 6)
