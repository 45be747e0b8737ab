"""A monitor inside an application records everything, breaks nothing, and scores a sample."""

import asyncio
import inspect
import math
import os
import threading
from collections import Counter
from contextlib import suppress

import msgspec
import pytest

import trivium as tv
from trivium.errors import InputError, StoreError
from trivium.metrics.registry import REGISTERED
from trivium.monitor import recorder
from trivium.monitor.interaction import interaction_recorded
from trivium.monitor.monitor import Monitor
from trivium.monitor.sampling import draw
from trivium.store.live_counts import counts_of
from trivium.store.live_jobs import LiveJobs
from trivium.store.live_samples import samples_of
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store

LENGTH = "tests.monitor.test_monitor:Length"
SUPPORT = {"name": "support"}


@tv.metric("tests.length")
class Length(tv.Metric):
    """The longer the output, up to ten letters, the better."""

    tier = "text"

    def score(self, metric_input):
        return self.ok(min(1.0, len(metric_input.attempt.text) / 10))


del REGISTERED["tests.length"]  # suites name it by its path; other tests know nothing of it


def by_length(**settings) -> dict:
    return {
        "name": "support", "metrics": [LENGTH], "pass": {"metric": "tests.length", "at_least": 0.5},
        "composite": {"weights": {"tests.length": 1}}, **settings,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(recorder, "WRITE_SECONDS", 0.001)
    monkeypatch.setattr(recorder, "PAUSE_SECONDS", 0.01)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "store.db"


def scored(file) -> list:
    with Store(str(file)) as store:
        return samples_of(store, "support")


def test_what_is_recorded_is_sampled_scored_and_counted(any_url):
    with Monitor(by_length(), sample_rate=1, store=any_url, score=False, version="1.0") as monitor:
        for number in range(20):
            monitor.record(
                input=f"q{number}", output="x" * number, tags=["chat"], session="s1", metadata={"n": number}
            )
        assert monitor.flush(60)
        assert not monitor.flush(0.1, scored=True)
        assert monitor.get_metrics() == {"status": "insufficient_data"}
    with Store(any_url) as store:
        assert LiveJobs(store).backlog("support").waiting == 20
        assert counts_of(store)["support", "complete", ""] == 20
    with Monitor(by_length(), store=any_url) as monitor:
        monitor.record(output="starts the threads", trace_id=_unsampled_id())
        assert monitor.flush(60, scored=True)
        found = monitor.get_metrics()
    assert found == {
        "sample_count": 20, "pass_rate": 0.75, "average_score": pytest.approx(0.725), "status": "warning"
    }  # fmt: skip
    with Store(any_url) as store:
        sample = samples_of(store, "support")[3]
        assert (sample.query, sample.output, sample.session) == ("q3", "xxx", "s1")
        assert sample.facets["tag"] == ("chat",)
        assert sample.facets["version"] == ("1.0",)


def _unsampled_id() -> str:
    return next(id_ for id_ in map(str, range(1000)) if draw(id_) > 0.5)


def test_the_sampled_traces_are_those_whose_draw_is_below_the_rate(file):
    with Monitor(SUPPORT, sample_rate=0.3, store=file, score=False) as monitor:
        for number in range(200):
            monitor.record(output="o", trace_id=f"t{number}")
    with Store(str(file)) as store:
        sampled = {f"t{number}" for number in range(200) if LiveJobs(store).of_trace(f"t{number}")}
        counts = counts_of(store)
    assert sampled == {f"t{number}" for number in range(200) if draw(f"t{number}") < 0.3}
    assert 30 < len(sampled) < 90
    assert counts["support", "complete", ""] == 200
    assert counts["support", "unsampled", ""] == 200 - len(sampled)
    assert counts["support", "sampled", ""] == len(sampled)


def test_a_full_queue_drops_and_counts(file, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(recorder.Recorder, "_wait", lambda self: gate.wait())
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False, queue=5) as monitor:
        for _ in range(8):
            monitor.record(output="o")
        gate.set()
    with Store(str(file)) as store:
        counts = counts_of(store)
    assert counts["support", "dropped", "queue"] == 3
    assert counts["support", "complete", ""] == 5


class Odd:
    def __repr__(self):
        raise RuntimeError("no")

    def __str__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [Odd(), {1, 2}, math.nan, b"\xff", "\ud800", [[[]]], {"k": Odd()}, 10**400])
def test_any_value_can_be_recorded(file, value):
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:
        monitor.record(
            input=value, output=value, error="no", tags=[value], session=value, metadata={"k": value}
        )
        monitor.record(output="fine")
    with Store(str(file)) as store:
        counts = counts_of(store)
        assert counts["support", "complete", ""] + counts["support", "dropped", "unrecordable"] == 2


def test_the_caller_may_change_what_it_recorded(file):
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:
        question = {"text": "before"}
        monitor.record(input=question, output="o", trace_id="t")
        question["text"] = "after"
    with Store(str(file)) as store:
        assert b"before" in LiveTraces(store).found("t").body


def test_a_store_that_fails_for_a_while_loses_nothing(file, monkeypatch):
    failures = iter([StoreError("locked")] * 3)
    real = LiveTraces.record

    def record(self, *args, **kwargs):
        for failure in failures:
            raise failure
        real(self, *args, **kwargs)

    monkeypatch.setattr(LiveTraces, "record", record)
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:
        for _ in range(10):
            monitor.record(output="o")
        assert monitor.flush(60)
    with Store(str(file)) as store:
        assert counts_of(store)["support", "sampled", ""] == 10


def test_a_store_that_fails_to_the_end_is_not_waited_for(file, monkeypatch, caplog):
    def record(self, *args, **kwargs):
        raise StoreError("the disk is full")

    monkeypatch.setattr(LiveTraces, "record", record)
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:
        monitor.record(output="o")
        assert not monitor.flush(0.05)
    assert caplog.text.count("the disk is full") == 1


def test_a_forked_child_records_for_itself(file):
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:
        monitor.record(output="parent", trace_id="parent")
        monitor.flush()
        child = os.fork()
        if child == 0:
            try:
                monitor.record(output="child", trace_id="child")
                os._exit(0 if monitor.flush(60) else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with Store(str(file)) as store:
        assert LiveJobs(store).of_trace("child")
        assert LiveJobs(store).of_trace("parent")


def test_what_was_recorded_is_written_when_the_program_ends(file):
    import subprocess
    import sys

    program = (
        "import trivium as tv, sys\n"
        "monitor = tv.Monitor({'name': 'support'}, sample_rate=1, store=sys.argv[1], score=False)\n"
        "monitor.record(output='o', trace_id='t')\n"
    )
    subprocess.run([sys.executable, "-c", program, str(file)], check=True, timeout=120)
    with Store(str(file)) as store:
        assert LiveJobs(store).of_trace("t")


# The decorator


def bodies(file) -> list[dict]:
    import msgspec

    with Store(str(file)) as store, store.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT body FROM live_traces").fetchall()
    return sorted((msgspec.json.decode(body) for (body,) in rows), key=lambda body: body["time"])


def test_calls_of_functions_of_every_kind_are_interactions(file):
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:

        @monitor.watch
        def one(question):
            return question.upper()

        @monitor.watch(tags=["two"], session="user")
        def two(question, *, user, limit=3):
            return [question] * limit

        @monitor.watch
        async def three(question):
            await asyncio.sleep(0)
            return question

        @monitor.watch
        def four(question):
            yield from question

        @monitor.watch
        async def five(question):
            for number in question:
                yield number

        async def numbers():
            return [number async for number in five([1, 2])]

        assert one("a") == "A"
        assert two("b", user="ann") == ["b"] * 3
        assert asyncio.run(three("c")) == "c"
        assert list(four("de")) == ["d", "e"]
        assert asyncio.run(numbers()) == [1, 2]
        assert asyncio.iscoroutinefunction(three)
        assert one.__name__ == "one"
    found = bodies(file)
    assert [(body["input"], body["output"]) for body in found] == [
        ("a", "A"), ("b", ["b"] * 3), ("c", "c"), ("de", "de"), ([1, 2], [1, 2])
    ]  # fmt: skip
    assert found[1]["session"] == "ann"
    assert found[1]["tags"] == ["two"]
    assert all(body["seconds"] >= 0 for body in found)


def test_an_error_is_recorded_and_raised(file):
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:

        @monitor.watch
        def fails(question):
            raise ValueError("no such order")

        with pytest.raises(ValueError, match="no such order"):
            fails("q")
        with pytest.raises(TypeError):
            fails()
    assert next(body["error"] for body in bodies(file)) == "ValueError: no such order"


def test_what_is_traced_meanwhile_belongs_to_the_interaction(file):
    with Monitor(SUPPORT, sample_rate=1, store=file) as monitor:

        class Agent:
            @monitor.watch
            @tv.trace.agent("writer")
            def answer(self, question):
                with tv.trace.tool("search", input=question) as span:
                    span.output = 1
                return "o"

        assert Agent().answer("q") == "o"
        monitor.flush()
        while not (found := scored(file)):
            pass
    assert found[0].facets["agent"] == ("writer",)
    assert found[0].facets["tool"] == ("search",)
    assert found[0].query == "q"


def test_an_evaluation_of_the_function_is_no_production(file, tmp_path):
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:

        @monitor.watch
        def answer(question):
            return "4"

        tv.evaluate([{"question": "2 + 2", "answer": "4"}], agent=answer, store=str(tmp_path / "runs.db"))
    assert bodies(file) == []


def test_a_generator_that_is_left_is_recorded_so_far(file):
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:

        @monitor.watch
        def count():
            yield "a"
            yield "b"

        next(iter(count()))
    assert [(body["output"], body.get("error")) for body in bodies(file)] == [("a", None)]


@pytest.mark.parametrize("items", [[{"n": n} for n in range(1_500)], ["x" * 70_000, "y"]])
def test_a_long_stream_is_recorded_whole(file, items):
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:

        @monitor.watch
        def stream():
            yield from items

        assert list(stream()) == items
    (body,) = bodies(file)
    assert body["output"] == (items if isinstance(items[0], dict) else "".join(items))


def test_what_is_sent_and_thrown_into_a_generator_reaches_it_and_what_it_returns_comes_back(file):
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:

        @monitor.watch
        def chat(question):
            answers = [(yield "a")]
            try:
                yield "b"
            except ValueError:
                yield "caught"
            return answers

        made = chat("q")
        assert [next(made), made.send(5), made.throw(ValueError("no"))] == ["a", "b", "caught"]
        with pytest.raises(StopIteration) as ended:
            next(made)
        assert ended.value.value == [5]
    assert [(body["output"], body.get("error")) for body in bodies(file)] == [("abcaught", None)]


def test_a_stream_may_be_read_by_several_tasks_and_its_reader_is_no_part_of_it(file):
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:

        @monitor.watch
        async def stream(question):
            with tv.trace.tool("inner"):
                yield "a"
                yield "b"

        async def read():
            made = stream("q")
            await asyncio.create_task(anext(made))
            with tv.trace.tool("of the reader"):
                await asyncio.create_task(made.aclose())

        asyncio.run(read())
    (body,) = bodies(file)
    assert (body["output"], [span["name"] for span in body["trace"]["spans"]]) == ("a", ["inner"])


def test_a_watched_generator_function_is_known_as_one(file):
    async def stream(count):
        for number in range(count):
            yield str(number)

    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:

        @monitor.watch
        def count(count):
            yield from map(str, range(count))

        watched = monitor.watch(stream)
        assert inspect.isgeneratorfunction(count)
        assert inspect.isasyncgenfunction(watched)
        assert inspect.signature(watched) == inspect.signature(stream)

        async def read():
            return [item async for item in tv.trace.agent(watched)(2)]

        with tv.trace.recorded() as recorded:
            assert list(tv.trace.agent(count)(2)) == asyncio.run(read()) == ["0", "1"]
    assert [span.output for span in recorded.trace.spans] == ["01", "01"]


# Traces of the process


def test_every_trace_that_is_recorded_is_an_interaction(file, tmp_path):
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False, version="3") as monitor:
        monitor.listen()

        @tv.trace.agent("writer")
        def answer(question):
            with tv.trace.tool("search", input=question) as span:
                span.output = 1
            tv.trace.message("checker", "look", sender="writer")
            return "o"

        answer("q")
        answer("r")
    first, second = bodies(file)
    assert (first["input"], first["output"], first["version"]) == ({"question": "q"}, "o", "3")
    assert {span["name"] for span in first["trace"]["spans"]} == {"writer", "search"}
    assert first["trace"]["messages"][0]["receiver"] == "checker"
    assert second["input"] == {"question": "r"}


def test_a_trace_that_cannot_be_made_is_counted_and_holds_up_no_other(file, monkeypatch):
    made = iter([RuntimeError("broken"), None])

    def broken(*args):
        if error := next(made):
            raise error
        return tv.Trace(trace_id="t")

    monkeypatch.setattr("trivium.monitor.tracing._trace_of", broken)
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:
        monitor.listen()
        for _ in range(2):
            with tv.trace.agent("a"):
                pass
    assert len(bodies(file)) == 1
    with Store(str(file)) as store:
        assert counts_of(store)["support", "dropped", "unrecordable"] == 1


def test_spans_of_opentelemetry_are_interactions_too(file):
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider()
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False) as monitor:
        monitor.listen(provider)
        tracer = provider.get_tracer("test")
        with tracer.start_as_current_span("invoke_agent writer") as span:
            span.set_attribute("gen_ai.operation.name", "invoke_agent")
            span.set_attribute("gen_ai.agent.name", "writer")
            with tracer.start_as_current_span("execute_tool search") as tool:
                tool.set_attribute("gen_ai.operation.name", "execute_tool")
                tool.set_attribute("gen_ai.tool.name", "search")
    (body,) = bodies(file)
    assert {(span["kind"], span["name"]) for span in body["trace"]["spans"]} == {
        ("agent", "writer"), ("tool", "search")
    }  # fmt: skip


@pytest.mark.parametrize("by_opentelemetry", [True, False])
def test_a_trace_beyond_the_limit_keeps_its_root_and_what_failed_and_says_so(file, by_opentelemetry):
    """OpenTelemetry ends the root last; ``trivium.trace`` knows of a failure when a span ends."""
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider()
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False, settings={"max_spans": 3}) as monitor:
        monitor.listen(provider)
        start = provider.get_tracer("test").start_as_current_span if by_opentelemetry else tv.trace.agent
        with suppress(ValueError), start("root"):
            for number in range(8):
                with suppress(ValueError), start(f"t{number}"):
                    _fail(number == 6)
            _fail(True)
    (body,) = bodies(file)
    names = {span["name"]: span["ok"] for span in body["trace"]["spans"] if span.get("ok", True) is False}
    assert names == {"root": False, "t6": False}
    assert body["trace"]["problems"][0]["kind"] == "cut"
    interaction = interaction_recorded("t", msgspec.json.encode(body))
    assert (interaction.failed, interaction.trace.cut) == (True, True)


def _fail(really):
    if really:
        raise ValueError


def test_too_many_open_traces_and_spans_are_left_out_and_counted(file, monkeypatch):
    monkeypatch.setattr("trivium.monitor.tracing.OPEN_TRACES", 2)
    with Monitor(SUPPORT, sample_rate=1, store=file, score=False, settings={"max_spans": 3}) as monitor:
        monitor.listen()
        with tv.trace.agent("a"):
            for number in range(5):
                with tv.trace.tool(f"t{number}"):
                    pass
        spans = [tv.trace.agent(f"open{number}") for number in range(3)]
        threads = [threading.Thread(target=span.__enter__) for span in spans]
        for thread in threads:
            thread.start()
            thread.join()
    with Store(str(file)) as store:
        counts = counts_of(store)
    assert counts["support", "dropped", "too_many_spans"] == 1
    assert counts["support", "dropped", "open_traces"] == 1
    assert len(bodies(file)[0]["trace"]["spans"]) == 3


# At once


def test_an_interaction_is_sampled_and_scored_at_once(file):
    with Monitor(by_length(), sample_rate=1, store=file, score=False) as monitor:
        sample = monitor.sample_and_evaluate("q" * 300, "x" * 300)
        assert sample.keys() == {"query", "output_preview", "score", "passed", "timestamp", "probability"}
        assert (len(sample["query"]), len(sample["output_preview"])) == (200, 200)
        assert (sample["score"], sample["passed"], sample["probability"]) == (1.0, True, 1.0)
        assert monitor.sample_and_evaluate("q", "x")["passed"] is False
        assert monitor.get_metrics()["sample_count"] == 2


def test_most_interactions_are_not_sampled(file):
    with Monitor(by_length(), sample_rate=0.01, store=file, score=False) as monitor:
        outcomes = Counter(monitor.sample_and_evaluate("q", "x") is None for _ in range(30))
    assert outcomes[True] > 20  # fewer with probability below 1e-12
    with Store(str(file)) as store:
        assert counts_of(store)["support", "complete", ""] == 30


@pytest.mark.parametrize(
    ("rate", "status"), [(0.69, "critical"), (0.70, "warning"), (0.84, "warning"), (0.85, "healthy")]
)
def test_the_status_is_by_the_pass_rate(file, rate, status):
    with Monitor(by_length(), sample_rate=1, store=file) as monitor:
        for number in range(100):
            monitor.record(output="x" * (10 if number < round(100 * rate) else 1))
        monitor.flush(60, scored=True)
        assert monitor.get_metrics()["status"] == status


def test_thresholds_and_window_are_settings(file):
    now = [1e9]
    settings = {"figures": {"pass_rate": {"warning": 0.3, "critical": 0.2}}, "window": 60}
    own = {"store": file, "clock": lambda: now[0], "score": False}
    with Monitor(by_length(), sample_rate=1, settings=settings, **own) as monitor:
        for length in (10, 1):
            monitor.sample_and_evaluate("q", "x" * length)
            now[0] += 40
        assert monitor.get_metrics() | {"average_score": 0} == {
            "sample_count": 1, "pass_rate": 0.0, "average_score": 0, "status": "critical"
        }  # fmt: skip
    with Monitor(by_length(), settings=settings | {"window_samples": 2}, **own) as monitor:
        assert monitor.get_metrics()["status"] == "healthy"


def test_samples_are_weighted_by_inverse_probability(file):
    """Failures are always sampled, other interactions rarely: the pass rate is that of all."""
    settings = {"rules": [{"errors": True, "rate": 1.0}]}
    with Monitor(SUPPORT, sample_rate=0.2, store=file, settings=settings) as monitor:
        for number in range(300):
            error = "no" if number % 3 == 0 else None
            monitor.record(output="o", error=error, trace=_completed(), trace_id=f"w{number}")
        monitor.flush(60, scored=True)
        found = monitor.get_metrics()
    assert found["pass_rate"] == pytest.approx(2 / 3, abs=0.12)  # unweighted: about 0.3


def _completed():
    span = tv.Span(id="a", kind="agent", name="writer", start=0.0, end=1.0)
    return tv.Trace(trace_id="x", spans=(span,))


def test_wrong_settings_are_refused_at_once(file, tmp_path):
    with pytest.raises(InputError, match="sample_rate"):
        Monitor(SUPPORT, sample_rate=2, store=file)
    with pytest.raises(InputError, match="per_hour"):
        Monitor(SUPPORT, settings={"per_hours": 3}, store=file)
    (tmp_path / "text").write_text("no store")
    with pytest.raises(StoreError):
        Monitor(SUPPORT, store=tmp_path / "text")
