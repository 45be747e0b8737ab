"""An agent that fails is scored alike, whichever way its attempt comes in."""

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

import trivium as tv
from tests.otlp_requests import BEGAN, body, span
from trivium.metrics.registry import REGISTERED
from trivium.monitor.completion import Completer
from trivium.monitor.intake import Intake
from trivium.monitor.monitored import monitored
from trivium.monitor.scorer import Scorer
from trivium.monitor.windows import Columns, figures_of, window_of
from trivium.store.live_records import Choice
from trivium.store.live_samples import samples_of
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store


@tv.metric("tests.said")
class Said(tv.Metric):
    """Whether the agent said anything."""

    tier = "text"

    def score(self, metric_input):
        return self.ok(float(bool(metric_input.attempt.text)))


del REGISTERED["tests.said"]  # suites name it by its path
SAID = f"{Said.__module__}:{Said.__name__}"
FIGURES = ["completed", "tool_success", "tests.said", "agent.tool_efficiency"]
SUITE = {
    "name": "support",
    "metrics": [SAID, "completed", "tool_success", "agent.tool_efficiency"],
    "judge": {
        "models": ["openai:none"],
        "servers": {"openai:none": {"base_url": "http://127.0.0.1:9/v1"}},
        "rubric": "agent",
    },
    "composite": {"weights": {"completed": 1, "tool_success": 1}},
}


@tv.trace.agent("writer")
def answer(question):
    """Calls a tool that works, and one that raises."""
    with tv.trace.tool("search", input=question) as found:
        found.output = 1
    with tv.trace.tool("order", input=question):
        raise ValueError("out of stock")


def _failing():
    with tv.trace.recorded() as recorded, pytest.raises(ValueError, match="out of stock") as raised:
        answer("q")
    return recorded.trace, raised.value


def _evaluate(store):
    made = {**SUITE, "cases": [{"id": "a", "input": "q"}]}
    return tv.evaluate(tv.Suite.load(made), agent=answer, store=store).id


def _monitor(store, call):
    with tv.Monitor(SUITE, sample_rate=1, store=store) as monitor:
        call(monitor)
        assert monitor.flush(60, scored=True)


def _record(store):
    trace, error = _failing()
    _monitor(store, lambda monitor: monitor.record(input="q", error=error, trace=trace))


def _watch(store):
    def call(monitor):
        with pytest.raises(ValueError, match="out of stock"):
            monitor.watch(answer)("q")

    _monitor(store, call)


def _listen(store):
    def call(monitor):
        monitor.listen()
        with pytest.raises(ValueError, match="out of stock"):
            answer("q")

    _monitor(store, call)


def _serve(store):
    trace, root = b"t" * 16, b"r" * 8
    spans = [span(trace, id=root, operation="invoke_agent", agent="writer")]
    spans += [
        span(trace, parent=root, start=BEGAN + place, operation="execute_tool", tool=tool)
        for place, tool in enumerate(("search", "order"), 1)
    ]
    for failed in (spans[0], spans[2]):
        failed.status.code = Status.STATUS_CODE_ERROR
    with Store(store) as opened, Scorer(opened, monitored(SUITE)) as scorer:
        traces = LiveTraces(opened)
        with Intake(traces, clock=lambda: 1e9) as intake:
            intake.receive(body(spans), "protobuf")
        Completer(traces, lambda _: [Choice(monitor="support", sampled=True, probability=1.0)]).complete(2e9)
        scorer.score_all(2e9)


@pytest.mark.parametrize(
    "enter", [_evaluate, _record, _watch, _listen, _serve], ids=lambda each: each.__name__.strip("_")
)
def test_a_failed_attempt_has_the_same_scores_from_every_entry_point(enter, tmp_path):
    store = str(tmp_path / "store.db")
    enter(store)
    with Store(store) as opened:
        (run,) = list(opened.runs())
        (found,) = opened.evaluations(run)
        samples = samples_of(opened, "support", figures=FIGURES)
    evaluated = found.evaluation
    scores = evaluated.scores
    assert (evaluated.failed is not None, evaluated.passed, evaluated.composite.value) == (True, False, 0.0)
    assert "out of stock" in evaluated.failed or enter is _serve
    assert (scores["completed"].value, scores["tool_success"].value) == (0.0, 0.5)
    for name in ("tests.said", "agent.tool_efficiency"):
        assert (scores[name].status, scores[name].value, scores[name].missing) == ("skipped", None, True)
    for sample in samples:
        # What is missing counts at its worst in windows, levels and alerts.
        assert sample.scores == dict.fromkeys(FIGURES, 0.0) | {"tool_success": 0.5}
        settings = monitored(SUITE).monitor
        window = window_of(Columns([sample], figures_of(settings)), settings, begin=0, end=3e9)
        assert (window.figure("pass_rate").mean, window.figure("composite").mean) == (0.0, 0.0)


def half_fails(question):
    with tv.trace.agent("writer"):
        with tv.trace.tool("search"):
            pass
        if question % 2:
            with tv.trace.tool("order"):
                raise ValueError("out of stock")
    return "done"


def evaluated(agent, folder, **settings):
    suite = {
        "name": "s",
        "metrics": [SAID, "tool_success", "completed"],
        "pass": {"metric": "completed", "at_least": 1},
        "cases": [{"id": str(number), "input": number} for number in range(40)],
        **settings,
    }
    return tv.evaluate(tv.Suite.load(suite), agent=agent, store=str(folder / "s.db")).summary()


def test_a_tool_that_raises_in_half_of_the_attempts_lowers_the_means_and_holds_up_gates(tmp_path):
    summary = evaluated(half_fails, tmp_path, gates={"tests.said": {"at_least": 0.9}})
    assert summary.metrics["tool_success"].mean == pytest.approx(0.75)  # 1 and 1 of 2 calls
    assert (summary.metrics["tool_success"].n, summary.metrics["completed"].mean) == (40, 0.5)
    said = summary.metrics["tests.said"]
    assert (said.n, said.missing, said.bounds) == (20, 20, (0.5, 1.0))
    (gate,) = summary.gates
    assert (gate.answer, gate.missing) == ("inconclusive", 20)
    assert gate.why == "the attempt failed: ValueError: out of stock"


def test_where_no_attempt_has_a_trace_failed_ones_lack_none(tmp_path):
    def agent(question):
        if question % 2:
            raise ValueError("no")
        return "done"

    summary = evaluated(agent, tmp_path)
    assert summary.metrics["tool_success"].missing == 0
    assert summary.metrics["tests.said"].missing == 20


def test_failed_attempts_that_are_left_out_lack_nothing(tmp_path):
    summary = evaluated(half_fails, tmp_path, failed_attempts="skip")
    assert summary.metrics["tool_success"].mean == 1.0
    assert summary.metrics["tests.said"].missing == 0
