"""Opik: its evaluate runs metrics of Trivium, its metrics score attempts, its server gets runs."""

import logging
import sys
from datetime import datetime
from uuid import UUID

import msgspec
import pytest

import trivium as tv
from tests.integrations.opik_server import OpikServer
from tests.judge_server.server import JudgeServer
from trivium.cli.main import run_command
from trivium.errors import InputError, MissingExtra, SuiteError
from trivium.integrations import opik as ours
from trivium.integrations.opik import opik_metric, push, trivium_metric
from trivium.metrics.registry import REGISTERED
from trivium.traces.trace import Message, Span, SpanUsage, Trace

# Of httpx, where the environment names a file of certificates.
pytestmark = pytest.mark.filterwarnings("ignore:`verify=<str>`:DeprecationWarning")


@pytest.fixture(scope="module")
def opik():
    """Their package, without PyTorch and NLTK, which it would import for metrics that are not used here."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("bert_score", "nltk"):
            patch.setitem(sys.modules, name, None)
        return pytest.importorskip("opik")


@pytest.fixture
def server(monkeypatch, tmp_path, opik):
    monkeypatch.setenv("OPIK_CONFIG_PATH", str(tmp_path / "none"))
    logging.getLogger("opik").setLevel(logging.CRITICAL)
    with OpikServer() as started:
        monkeypatch.setenv("OPIK_URL_OVERRIDE", started.url)
        yield started


def spans():
    return (
        Span(id="1", kind="agent", name="boss", start=0.0, end=4.0, input="find"),
        Span(id="2", kind="tool", name="look", parent="1", start=1.0, end=2.0, ok=False, input={"q": [1]},
             attributes={"error": "404"}),
        Span(id="3", kind="llm", name="gpt-4o", parent="1", start=2.0, end=3.0, output="found",
             usage=SpanUsage(input_tokens=7, output_tokens=2, cost_usd=0.25)),
        Span(id="4", kind="other", name="GET", parent="3", start=2.5),
    )  # fmt: skip


STARTED = "2026-01-02T03:04:05+00:00"


def attempts():
    yield tv.Attempt(case="a", output="x y", trace=Trace(spans=spans(), metadata={"started": STARTED}))
    yield tv.Attempt(case="a", repeat=1, output="z", seconds=2.0)
    yield tv.Attempt(case="b", error="it broke", trace=Trace(messages=(Message(sender="a", receiver="b"),)))


@pytest.fixture
def run(tmp_path):
    suite = tv.Suite.from_dict(
        {
            "name": "small",
            "repeats": 2,
            "metrics": ["jaccard", "tool_success", "success"],
            "cases": [{"id": "a", "input": {"q": 1}, "references": ["x"]}, {"id": "b", "input": "?"}],
        }
    )
    lines = [msgspec.json.encode(attempt) + b"\n" for attempt in attempts()]
    (tmp_path / "outputs.jsonl").write_bytes(b"".join(lines))
    return tv.evaluate(suite, outputs=tmp_path / "outputs.jsonl", store=f"{tmp_path}/s.db")


def evaluated(opik, task, *metrics):
    client = opik.Opik()
    dataset = client.create_dataset("questions")
    dataset.insert([{"input": "q", "expected_output": "a b c"}])
    found = opik.evaluate(
        dataset=dataset, task=task, scoring_metrics=list(metrics), verbose=0, task_threads=1, project_name="p"
    )
    client.end()
    (result,) = found.test_results
    return {each.name: each for each in result.score_results}


def test_opiks_evaluate_runs_metrics_of_trivium(opik, server):
    trace = {"spans": [{"id": "1", "kind": "tool", "name": "look", "start": 0.0, "end": 1.0, "ok": False}]}
    scores = evaluated(
        opik,
        lambda item: {"output": "a b d", "trace": trace},
        trivium_metric("jaccard"),
        trivium_metric("tool_success"),
    )
    assert {name: (each.value, each.scoring_failed) for name, each in scores.items()} == {
        "jaccard": (0.5, False), "tool_success": (0.0, False),
    }  # fmt: skip
    assert [path for _, path, _ in server.requests].count("/v1/private/experiments") == 1


def test_a_metric_that_does_not_apply_is_left_out_of_opiks_means(opik, server):
    scores = evaluated(opik, lambda item: {"output": "a"}, trivium_metric("tool_success"))
    assert scores["tool_success"].scoring_failed
    assert "trace" in scores["tool_success"].reason


def test_settings_of_a_suite_reach_the_metric():
    exact = trivium_metric("success", success={"exact": True})
    assert exact.score(output="a", reference=["a", "b"]).value == 1.0
    assert exact.score(output="a b", reference=["a", "b"]).value == 0.0
    assert exact.score(output="a", expected_output="a", context=["one", "two"], unknown=1).value == 1.0


def test_a_metric_that_there_is_not_is_refused_at_once():
    with pytest.raises(SuiteError, match='Did you mean "jaccard"'):
        trivium_metric("jacard")


def test_a_run_goes_to_opik_whole(opik, server, run):
    pushed = push(run, project="p")
    assert str(pushed) == f"sent 3 traces, 4 spans and {pushed.scores} scores to {server.url}"
    traces, spans_ = server.kept["traces"], server.kept["spans"]
    by_name = {(each["name"], each["metadata"]["trivium.repeat"]): each for each in traces.values()}
    assert set(by_name) == {("attempt a", 0), ("attempt a", 1), ("attempt b", 0)}
    first, second, broken = (by_name[key] for key in (("attempt a", 0), ("attempt a", 1), ("attempt b", 0)))
    assert (first["input"], first["output"]) == ({"input": {"q": 1}}, {"output": "x y"})
    assert datetime.fromisoformat(first["start_time"]) == datetime.fromisoformat(STARTED)
    ended = datetime.fromisoformat(second["end_time"]) - datetime.fromisoformat(second["start_time"])
    assert ended.total_seconds() == 2.0
    assert broken["error_info"]["message"] == "it broke"
    assert {
        each["project_name"] for each in (*traces.values(), *spans_.values(), *server.scores.values())
    } == {"p"}

    agent, tool, model, other = sorted(
        spans_.values(), key=lambda span: datetime.fromisoformat(span["start_time"])
    )
    assert [each["type"] for each in (agent, tool, model, other)] == ["general", "tool", "llm", "general"]
    assert {each["trace_id"] for each in spans_.values()} == {first["id"]}
    assert agent["parent_span_id"] is None
    assert [each["parent_span_id"] for each in (tool, model, other)] == [
        agent["id"],
        agent["id"],
        model["id"],
    ]
    assert model["usage"] == {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    assert (model["model"], model["total_estimated_cost"]) == ("gpt-4o", 0.25)
    assert tool["error_info"]["message"] == "404"
    assert other["end_time"] is None
    for record in (*traces.values(), *spans_.values()):
        assert opik.id_helpers.is_valid_uuid_v7(record["id"])
        moment = datetime.fromisoformat(record["start_time"]).timestamp()
        assert UUID(record["id"]).int >> 80 == int(moment * 1000)


def test_scores_are_feedback_with_their_reasons(server, run):
    push(run)
    (first,) = [each["id"] for each in server.kept["traces"].values() if each["output"] == {"output": "x y"}]
    (broken,) = [each["id"] for each in server.kept["traces"].values() if each["name"] == "attempt b"]
    by_key = {each.case + str(each.repeat): each for each in run.evaluations()}
    values = {name: each["value"] for (trace, name), each in server.scores.items() if trace == first}
    expected = {name: each.value for name, each in by_key["a0"].scores.items() if each.value is not None}
    assert {name: values[name] for name in expected} == expected
    assert values["composite"] == by_key["a0"].composite.value
    assert set(values) - set(expected) <= {"composite", "passed"}
    failed = server.scores[broken, "success"]
    assert (failed["value"], failed["reason"]) == (0.0, "the attempt failed: it broke")
    assert (broken, "jaccard") not in server.scores


def test_a_run_that_is_pushed_twice_is_there_once(server, run):
    push(run)
    before = {kind: dict(stored) for kind, stored in server.kept.items()} | {"scores": dict(server.scores)}
    push(run)
    assert {kind: dict(stored) for kind, stored in server.kept.items()} | {
        "scores": dict(server.scores)
    } == before


def test_requests_are_bounded_and_traces_come_before_what_is_of_them(server, run, monkeypatch):
    monkeypatch.setattr(ours, "MAX_RECORDS", 2)
    push(run)
    known = set()
    for _, path, body in server.requests:
        records = [record for value in body.values() if isinstance(value, list) for record in value]
        assert len(records) <= 2
        if path.startswith("/v1/private/traces") and "feedback" not in path:
            known |= {record["id"] for record in records}
        elif path.startswith("/v1/private/spans"):
            assert {record["trace_id"] for record in records} <= known
        elif "feedback" in path:
            assert {record["id"] for record in records} <= known
    requests = len(server.requests)
    monkeypatch.setattr(ours, "MAX_BYTES", 1)
    push(run)
    assert len(server.requests) > 2 * requests


def test_a_refusal_of_the_server_is_reported(server, run):
    server.refuse = {"spans": (400, "no such workspace")}
    with pytest.raises(InputError, match=r"answered 400: .*no such workspace"):
        push(run)


def test_the_command_pushes_a_run(server, run, tmp_path, capsys):
    code = run_command(["export", run.id, "--to", "opik", "--project", "p", "--store", f"{tmp_path}/s.db"])
    assert (code, len(server.kept["traces"])) == (0, 3)
    assert "sent 3 traces, 4 spans" in capsys.readouterr().err


@pytest.mark.parametrize("make", [lambda: trivium_metric("jaccard"), lambda: push(None)])
def test_without_the_package_one_line_says_what_to_install(monkeypatch, make):
    for name in [name for name in sys.modules if name.split(".")[0] == "opik"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opik", None)
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[opik\]"'):
        make()


def test_a_judge_of_trivium_is_a_metric_of_opik(monkeypatch):
    with JudgeServer() as judge:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", judge.openai_url)
        metric = trivium_metric("technical_accuracy", judge={"models": ["openai:judge"]})
        found = metric.score(output="The method is sound.", input="Review it.", context="A paper.")
    assert (found.name, found.scoring_failed, found.metadata["status"]) == ("technical_accuracy", False, "ok")
    assert 0 <= found.value <= 1


@pytest.fixture(scope="module")
def theirs(opik):
    from tests.integrations import opik_metrics

    return opik_metrics


@pytest.fixture(autouse=True)
def _forget():
    before = set(REGISTERED)
    yield
    for name in set(REGISTERED) - before:
        del REGISTERED[name]


@pytest.mark.parametrize(
    ("metric", "output", "references", "value"),
    [
        ("Equals", "a", ["a"], 1.0),
        ("Equals", "a", ["b", "a"], 1.0),
        ("Equals", "a", ["b"], 0.0),
        ("Contains", "hello world", ["world"], 1.0),
        ("IsJson", '{"a": 1}', [], 1.0),
        ("IsJson", "{", [], 0.0),
    ],
)
def test_a_metric_of_theirs_scores_like_them(theirs, metric, output, references, value):
    opik_metric("opik.metric", lambda: getattr(theirs, metric)(track=False))
    assert tv.score("opik.metric", output=output, references=references).value == value


def test_values_between_are_theirs(theirs):
    opik_metric("opik.levenshtein", lambda: theirs.LevenshteinRatio(track=False))
    expected = theirs.LevenshteinRatio(track=False).score(output="kitten", reference="sitting").value
    assert tv.score("opik.levenshtein", output="kitten", references=["sitting"]).value == expected


def test_what_the_metric_needs_and_is_not_there_skips_it(theirs):
    opik_metric("opik.equals", lambda: theirs.Equals(track=False))
    assert tv.score("opik.equals", output="a").reason == "the case has no reference"

    class Picky(theirs.Own):
        def score(self, output, rubric):
            raise AssertionError

    opik_metric("opik.picky", Picky)
    found = tv.score("opik.picky", output="a")
    assert (found.status, found.reason) == (
        "skipped", "the metric needs rubric, which the case and the attempt do not have",
    )  # fmt: skip


def test_it_sees_what_its_parameters_are_called_for(theirs):
    own = theirs.Own(theirs.scored(0.25, reason="short"))
    opik_metric("opik.own", lambda: own)
    found = tv.score("opik.own", output="a", input={"q": 1}, source="doc", references=["r"])
    assert (found.value, found.reason) == (0.25, "short")
    assert own.seen == [('{"q":1}', ["doc"], {})]


def test_several_results_give_their_mean_and_each_is_recorded(theirs):
    opik_metric(
        "opik.many",
        lambda: theirs.Own(theirs.scored(1.0, name="a"), theirs.scored(0.5, name="b", reason="half")),
    )
    found = tv.score("opik.many", output="x", input="?")
    assert (found.value, found.raw, found.detail, found.reason) == (
        0.75,
        [1.0, 0.5],
        {"a": 1.0, "b": 0.5},
        "half",
    )


def test_what_failed_or_gave_nothing_is_an_error(theirs):
    opik_metric("opik.failed", lambda: theirs.Own(theirs.scored(0.0, scoring_failed=True, reason="no model")))
    found = tv.score("opik.failed", output="x", input="?")
    assert (found.status, found.reason) == ("error", "RuntimeError: no model")
    opik_metric("opik.empty", theirs.Own)
    assert tv.score("opik.empty", output="x", input="?").status == "error"


def test_lower_may_be_better_and_other_scales_are_reported_alone(theirs):
    opik_metric("opik.low", lambda: theirs.Own(theirs.scored(0.25)), lower_is_better=True)
    assert tv.score("opik.low", output="x", input="?").value == 0.75
    opik_metric("opik.high", lambda: theirs.Own(theirs.scored(7.0)))
    found = tv.score("opik.high", output="x", input="?")
    assert (found.value, found.raw, found.status) == (None, 7.0, "ok")


def test_without_the_package_one_line_says_what_to_install_for_their_metrics(monkeypatch, theirs):
    monkeypatch.setitem(sys.modules, "opik", None)
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[opik\]"'):
        opik_metric("opik.none", theirs.Own)
