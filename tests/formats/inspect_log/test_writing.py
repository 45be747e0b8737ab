"""A run as a log of Inspect: Inspect reads it, and Trivium what it was, also after Inspect rewrote it."""

import json
import math
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trivium as tv
from tests.formats.inspect_log.packed import HEADER, attempts
from tests.strategies import traces
from tests.traces.writers.test_otlp import rich_traces
from trivium.agents.attempt import Attempt, Usage
from trivium.cli.main import run_command
from trivium.formats.inspect_log.traces import trace_of_sample
from trivium.formats.inspect_log.writing import sample_of
from trivium.metrics.evaluation import Composite, Evaluation
from trivium.metrics.metric import Score
from trivium.suites.case import Case
from trivium.traces.native import native_trace

SUITE = {
    "name": "small",
    "repeats": 2,
    "metrics": ["jaccard", "tool_success", "success"],
    "cases": [
        {
            "id": "a",
            "input": "?",
            "references": ["x", "z"],
            "metadata": {"kind": "k"},
            "expect": {"tools": [{"name": "look"}]},
        },
        {"id": "b", "input": [{"role": "user", "content": "!"}], "references": ["y"]},
    ],
}
TRACE = native_trace(
    {
        "trace_id": "t",
        "spans": [
            {"id": "1", "kind": "agent", "name": "boss", "start": 0, "end": 9, "attributes": {"kept": [1]}},
            {"id": "2", "kind": "agent", "name": "aide", "parent": "1", "start": 1, "end": 5},
            {"id": "3", "kind": "llm", "name": "m", "parent": "2", "start": 1.5, "end": 2,
             "output": "I look.",
             "usage": {"input_tokens": 10, "output_tokens": 3, "cache_read_tokens": 4, "cost_usd": 0.5}},
            {"id": "4", "kind": "tool", "name": "look", "parent": "2", "start": 2, "end": 3,
             "input": {"at": 1}, "output": "not there", "ok": False},
            {"id": "5", "kind": "tool", "name": "ask", "parent": "2", "start": 3, "end": 4,
             "input": "a text"},
            {"id": "6", "kind": "agent", "name": "guest", "parent": "5", "start": 3.25, "end": 3.5},
        ],
    }
)  # fmt: skip
CHAT = [
    {"role": "user", "content": "!", "turn": 1},
    {"role": "assistant", "content": None, "turn": 1, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "find", "arguments": '{"q": "y"}'}}]},
    {"role": "tool", "content": "y", "turn": 1, "tool_call_id": "c"},
    {"role": "assistant", "content": "y", "turn": 1},
]  # fmt: skip
ATTEMPTS = [
    {"case": "a", "output": "x y", "trace": msgspec.to_builtins(TRACE), "metadata": {"seed": 7}},
    {"case": "a", "repeat": 1, "output": {"answer": "x"}, "seconds": 2.5, "flags": ["nul"],
     "usage": {"input_tokens": 6, "cost_usd": 0.25}},
    {"case": "b", "output": "y", "seconds": 1.0, "messages": CHAT},
    {"case": "b", "repeat": 1, "error": "no answer"},
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The folder of a run's log, as it was written and as Inspect wrote it again, and what Inspect read."""
    folder = tmp_path_factory.mktemp("written")
    (folder / "suite.json").write_text(json.dumps(SUITE))
    (folder / "outputs.jsonl").write_text("\n".join(map(json.dumps, ATTEMPTS)))
    store = ["--store", str(folder / "runs.db")]
    assert (
        run_command(
            [
                "score",
                str(folder / "suite.json"),
                "--outputs",
                str(folder / "outputs.jsonl"),
                "--quiet",
                *store,
            ]
        )
        == 3
    )
    assert run_command(["export", "--format", "inspect", "--output", str(folder / "log.json"), *store]) == 0
    script = Path(__file__).with_name("read_log.py")
    command = [sys.executable, str(script), str(folder / "log.json"), str(folder / "again.eval")]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (folder / "read.json").write_text(made.stdout)
    return folder


@pytest.fixture(scope="module")
def run(folder):
    return tv.Run.load(store=folder / "runs.db")


def test_inspect_reads_samples_calls_usage_and_errors(folder):
    read = json.loads((folder / "read.json").read_text())
    assert read["header"] == ["success", "small", 2, "passed"]
    assert read["stats"] == {"m": 6, str(folder / "outputs.jsonl"): 6}  # Inspect counts cached tokens apart
    samples = read["samples"]
    assert list(samples) == ["a 1", "a 2", "b 1", "b 2"]
    one, two, three, four = samples.values()
    assert (one["input"], one["target"], one["output"], one["metadata"]) == (
        "?",
        ["x", "z"],
        "x y",
        {"kind": "k"},
    )
    assert one["calls"] == [["look", {"at": 1}], ["ask", {"input": "a text"}]]
    assert [role for role, _ in one["messages"]] == [
        *("user", "assistant", "assistant", "tool", "assistant", "tool", "assistant")
    ]
    assert one["messages"][-1] == ["assistant", "x y"]
    assert one["usage"] == {
        "m": {
            "input_tokens": 6,
            "output_tokens": 3,
            "total_tokens": 13,
            "input_tokens_cache_read": 4,
            "total_cost": 0.5,
        }
    }
    assert one["failed"] == ["not there"]
    kinds = [kind for kind, _ in one["events"]]
    assert (kinds.count("span_begin"), kinds.count("span_end"), kinds.count("tool")) == (4, 4, 2)
    assert (json.loads(two["output"]), two["seconds"]) == ({"answer": "x"}, 2.5)
    assert two["usage"][str(folder / "outputs.jsonl")]["total_cost"] == 0.25
    assert (three["input"], three["calls"]) == (["!"], [["find", {"q": "y"}]])
    assert three["messages"] == [["user", "!"], ["assistant", ""], ["tool", "y"], ["assistant", "y"]]
    assert (four["error"], four["output"]) == ("no answer", "")


def test_inspect_reads_the_scores_and_their_means(folder, run):
    read = json.loads((folder / "read.json").read_text())
    for evaluation in run.evaluations():
        sample = read["samples"][f"{evaluation.case} {evaluation.repeat + 1}"]
        for name, score in evaluation.scores.items():
            if score.value is not None:
                assert float(sample["scores"][name]) == score.value
            elif score.missing:  # unscored, as Inspect has it
                assert math.isnan(float(sample["scores"][name]))
                assert sample["reasons"][name] == score.reason
            else:
                assert name not in sample["scores"]
        assert float(sample["scores"]["passed"]) == evaluation.passed
    summary = run.summary()
    assert read["results"]["passed"]["mean"] == summary.pass_rate.value
    for name, figure in summary.metrics.items():
        assert read["results"][name]["mean"] == figure.mean
        assert [read["results"][name].get(f"ci95_{end}") for end in ("lower", "upper")] == list(
            figure.ci95 or (None, None)
        )


@pytest.mark.parametrize("name", ["log.json", "again.eval"])
def test_cases_and_attempts_are_read_back_as_they_were(folder, run, name):
    suite, found = attempts(folder / name)
    assert list(suite) == list(run.cases())
    written = [(each.case, each.repeat) for each in found]
    assert sorted(written) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    stored = {(each.case, each.repeat): each for each in run.attempts()}
    for each in found:
        scores = each.metadata["scores"]
        without = {key: value for key, value in each.metadata.items() if key != "scores"}
        assert msgspec.structs.replace(each, metadata=without) == stored[each.case, each.repeat]
        assert scores["inspect.passed"]["value"] in {0.0, 1.0}


def test_a_changed_sample_counts_and_not_what_was_kept(folder, tmp_path):
    document = json.loads((folder / "log.json").read_text())
    document["samples"][0]["output"]["completion"] = "z"
    document["samples"][2]["target"] = "w"
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document))
    suite, found = attempts(path)
    one = next(each for each in found if (each.case, each.repeat) == ("a", 0))
    assert one.output == "z"
    assert [span.name for span in one.trace.spans if span.kind != "other"] == [
        *("boss", "aide", "guest", "m", "look", "ask")
    ]
    assert suite.case("b").references == ("w",)
    assert suite.case("a").expect.tools[0].name == "look"


def test_kept_attempts_open_no_file(folder, tmp_path):
    document = json.loads((folder / "log.json").read_text())
    kept = document["samples"][0]["store"]["trivium"]
    kept["attempt"]["trace"] = {"file": "/etc/passwd"}
    kept["attempt"]["output"] = "theirs"
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(document))
    assert attempts(path)[1][0].output == "x y"


def read_back(tmp_path_factory, sample):
    path = tmp_path_factory.mktemp("one") / "log.json"
    path.write_text(json.dumps(HEADER | {"samples": [sample]}))
    ((attempt,), suite) = reversed(attempts(path))
    return next(iter(suite)), attempt


NOTHING = Evaluation(case="a", repeat=0, scores={}, composite=Composite(value=None))


@given(trace=rich_traces() | traces(), usage=st.none() | st.builds(Usage, input_tokens=st.integers(0, 9)))
def test_any_trace_is_read_back_as_it_was(tmp_path_factory, trace, usage):
    case = Case(id="a", input="?")
    attempt = Attempt(case="a", output="x", trace=trace, usage=usage, seconds=1.0)
    sample = sample_of(case, attempt, NOTHING, begun=1e9, agent="me")
    its_case, its = read_back(tmp_path_factory, sample)
    assert (its_case, msgspec.structs.replace(its, metadata={})) == (case, attempt)
    for kind in ("llm", "tool"):
        alone = trace_of_sample(sample)
        assert sorted(span.name for span in alone.spans if span.kind == kind) == sorted(
            span.name or ("model" if kind == "llm" else "") for span in trace.spans if span.kind == kind
        )


def test_a_figure_that_is_only_reported_has_no_value():
    scores = {
        "time": Score(name="time", tier="text", raw=2.5),
        "judged": Score(name="judged", tier="judge", status="abstained", reason="not sure"),
        "none": Score(name="none", tier="trace", status="skipped", reason="no trace"),
    }
    evaluation = msgspec.structs.replace(NOTHING, scores=scores)
    sample = sample_of(
        Case(id="a", input="?"), Attempt(case="a", output="x"), evaluation, begun=1e9, agent="me"
    )
    assert list(sample["scores"]) == ["time", "judged"]
    assert sample["scores"]["time"]["value"] == "2.5 (raw)"
    assert (math.isnan(sample["scores"]["judged"]["value"]), sample["scores"]["judged"]["reason"]) == (
        True,
        "not sure",
    )
