"""Traces are scored without a suite: what is counted, selected, stored, and refused."""

import json
import pickle
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

import trivium as tv
from tests.judge_server import JudgeServer
from tests.metrics.judge.asked import served
from tests.runs.trace_scores.samples import BEGAN, support, trace, write
from tests.traces.opentelemetry.spans import agent, content
from trivium.agents.attempt import Attempt
from trivium.errors import InputError, TraceError
from trivium.runs.engines.job import Job, Task
from trivium.runs.engines.partition import PartScorer
from trivium.runs.trace_scores.selection import Selection, unix_time
from trivium.runs.trace_scores.spool import spooled
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite
from trivium.traces.native import native_trace


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_what_failed_and_what_it_took_is_counted(tmp_path):
    report = tv.score_traces(write(tmp_path / "t.jsonl", *support()))
    assert (report.traces, report.failed, report.unfinished) == (4, 1, 1)
    assert (report.calls, report.failed_calls, report.retries, report.loops) == (9, 1, 1, 1)
    assert (report.seconds.n, report.seconds.p50) == (3, 20.0)
    assert report.formats == {"native": 4}


def test_figures_are_by_agent_tool_and_model(tmp_path):
    report = tv.score_traces(write(tmp_path / "t.jsonl", *support()))
    helper, other = report.agents
    assert (helper.agent, helper.traces, helper.runs, helper.failed) == ("helper", 3, 3, 1)
    assert (helper.calls, helper.failed_calls, helper.looped_calls) == (9, 1, 4)
    assert (helper.seconds.p50, helper.seconds.p95) == pytest.approx((20.0, 29.0))
    assert (other.agent, other.unfinished) == ("other", 1)
    search, read = report.tools
    assert (search.tool, search.calls, search.traces, search.failed, search.retries) == ("search", 8, 3, 1, 1)
    assert (read.tool, read.seconds.p50, read.seconds.n) == ("read", 2.0, 1)
    (model,) = report.models
    assert (model.model, model.requests, model.tokens.input_tokens) == ("gpt-4o-mini", 1, 1000)


def test_a_cost_that_is_not_recorded_is_the_list_price(tmp_path):
    genai_prices = pytest.importorskip("genai_prices")
    usage = genai_prices.Usage(input_tokens=1000, output_tokens=100)
    price = float(genai_prices.calc_price(usage, model_ref="gpt-4o-mini").total_price)
    report = tv.score_traces(write(tmp_path / "t.jsonl", *support()))
    assert report.tokens.cost_usd == pytest.approx(price)
    assert (report.tokens.listed, report.tokens.unpriced) == (1, 0)
    (attempt, *_) = tv.Run.load(report.run).attempts()
    assert attempt.usage.cost_usd == pytest.approx(price)


def test_every_metric_without_an_expectation_is_measured_and_no_other(tmp_path):
    figures = tv.score_traces(write(tmp_path / "t.jsonl", *support())).summary.metrics
    assert {"path_convergence", "tool_success", "loop_free", "retry_rate", "completed"} <= set(figures)
    assert not {"tool_recall", "action_match", "similarity", "success"} & set(figures)
    assert figures["completed"].mean == pytest.approx(2 / 3)
    assert figures["loop_free"].mean == pytest.approx((1 + 1 + 1 / 5) / 3)


def test_the_worst_come_first_with_what_went_wrong(tmp_path):
    worst = tv.score_traces(write(tmp_path / "t.jsonl", *support())).worst
    assert [each.case for each in worst] == ["looped", "open", "retried"]
    assert (worst[0].error, worst[0].looped_calls) == ("TimeoutError: gave up", 4)
    assert (worst[2].failed_calls, worst[2].retries) == (1, 1)


def test_the_run_is_stored_with_each_traces_input_output_and_file(tmp_path):
    path = write(tmp_path / "t.jsonl", *support())
    report = tv.score_traces(path, name="support")
    run = tv.Run.load(report.run)
    assert (run.record.suite_name, run.record.state) == ("support", "done")
    assert run.provenance.agent == str(path)
    case, attempt = next(run.cases()), next(run.attempts())
    assert (case.id, case.input, case.tags) == ("well", "Where is my order?", ("shop",))
    assert case.metadata == {"file": str(path), "format": "native"}
    assert (attempt.output, attempt.seconds) == ("On its way.", 10)
    assert run.summary().passed == 2


def test_traces_of_one_conversation_are_one_group(tmp_path):
    traces = [trace(str(n), thread_id=f"thread-{n % 12}") for n in range(24)]
    report = tv.score_traces(write(tmp_path / "t.jsonl", *traces))
    assert report.summary.metrics["completed"].groups == 12


@pytest.mark.parametrize(
    ("wanted", "cases"),
    [
        ({"trace_ids": ["well", "open"]}, ["well", "open"]),
        ({"tags": ["beta"]}, ["retried"]),
        ({"agents": ["other"]}, ["open"]),
        ({"since": datetime.fromtimestamp(BEGAN + 120, UTC)}, ["looped", "open"]),
        ({"until": datetime.fromtimestamp(BEGAN + 60, UTC).isoformat()}, ["well"]),
        ({"tags": ["shop"], "since": datetime.fromtimestamp(BEGAN + 30, UTC)}, ["retried"]),
    ],
)
def test_traces_are_selected_by_id_tag_agent_and_time(tmp_path, wanted, cases):
    report = tv.score_traces(write(tmp_path / "t.jsonl", *support()), **wanted)
    assert [case.id for case in tv.Run.load(report.run).cases()] == cases
    assert report.not_selected == 4 - len(cases)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-11-22T14:30", "2026-11-22T14:30+00:00"),
        ("2026-11-22T14:30+05:30", "2026-11-22T09:00+00:00"),
        ("2026-11-22T14:30 Europe/Berlin", "2026-11-22T13:30+00:00"),
        ("2026-07-22T14:30 Europe/Berlin", "2026-07-22T12:30+00:00"),  # in summer
        ("2026-11-22T14:30[America/New_York]", "2026-11-22T19:30+00:00"),
        ("2026-11-22 America/Argentina/Buenos_Aires", "2026-11-22T03:00+00:00"),
        ("2026-11-22 14:30 UTC", "2026-11-22T14:30+00:00"),
    ],
)
def test_a_time_is_in_the_zone_that_it_names_else_in_utc(text, utc):
    assert unix_time(text, option="since") == datetime.fromisoformat(utc).timestamp()


@pytest.mark.parametrize(
    "text", ["2026-11-22 Europe/Atlantis", "noon Europe/Berlin", "2026-11-22 ../etc/passwd"]
)
def test_a_zone_that_there_is_not_is_an_error(text):
    with pytest.raises(TraceError, match="expected a date or time"):
        unix_time(text, option="since")


def test_a_time_may_be_how_long_ago(tmp_path):
    now = datetime.now(UTC)
    recent, old = ((now - timedelta(hours=hours)).timestamp() for hours in (3, 30))
    path = write(tmp_path / "t.jsonl", trace("recent", began=recent), trace("old", began=old))
    report = tv.score_traces(path, since="24h")
    assert [case.id for case in tv.Run.load(report.run).cases()] == ["recent"]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"trace_ids": ["wel"]}, 'no trace has the trace id "wel". Did you mean "well"?'),
        ({"tags": ["live"]}, 'no trace has the tag "live". There are: shop, beta.'),
        ({"agents": ["helpr"]}, 'Did you mean "helper"?'),
        ({"since": "2099-01-01"}, "no trace began in that time; they began 2026-09-"),
        ({"since": "yesterday"}, 'since: found "yesterday", expected a date or time'),
        ({"tags": ["beta"], "agents": ["other"]}, "none of the 4 traces meets all conditions"),
    ],
)
def test_a_selection_of_nothing_says_what_there_is(tmp_path, wanted, message):
    with pytest.raises(TraceError) as raised:
        tv.score_traces(write(tmp_path / "t.jsonl", *support()), **wanted)
    assert message in str(raised.value)


def test_traces_without_a_time_of_day_are_left_out_by_a_time_and_counted(tmp_path):
    path = write(tmp_path / "t.jsonl", *support(), {"trace_id": "x", "spans": [], "messages": []})
    report = tv.score_traces(path, since="2020-01-01")
    assert report.traces == 4
    assert "1 trace left out by --since or --until" in " ".join(report.summary.warnings)


def test_formats_may_be_mixed_in_one_folder(tmp_path):
    folder = tmp_path / "mixed"
    (folder / "deep").mkdir(parents=True)
    write(folder / "a.jsonl", *support())
    (folder / "deep" / "otlp.json").write_bytes(content(agent("boss", at=(0, 9))))
    (folder / "settings.json").write_text('{"colour": "red"}')
    (folder / "notes.txt").write_text("read me")
    report = tv.score_traces(folder)
    assert report.formats == {"native": 4, "otlp": 1}
    assert report.without_traces == (str(folder / "settings.json"),)
    assert report.unreadable == 0


def test_what_is_unreadable_is_named_and_the_others_go_on(tmp_path):
    (tmp_path / "cut.json").write_text('{"resourceSpans": [')
    path = write(tmp_path / "t.jsonl", *support())
    path.write_text(path.read_text() + '{"trace_id": "bad", "spans": [{"id": 1}]}\n', encoding="utf-8")
    report = tv.score_traces([tmp_path / "cut.json", path])
    assert (report.traces, report.unreadable) == (4, 2)
    assert [problem.where for problem in report.problems] == [str(tmp_path / "cut.json"), str(path)]
    assert "line 5" in report.problems[1].what


def test_equal_ids_of_different_files_are_all_scored_under_their_files_names(tmp_path):
    one, two = (write(tmp_path / name, support()[0]) for name in ("a.jsonl", "b.jsonl"))
    report = tv.score_traces([one, two])
    assert [case.id for case in tv.Run.load(report.run).cases()] == ["well", f"well ({two})"]
    assert report.renamed == 1


def test_traces_may_be_objects():
    traces = [native_trace(each) for each in support()]
    assert tv.score_traces(traces).traces == 4
    assert tv.score_traces(traces[0]).traces == 1


def test_a_metric_that_needs_an_expectation_is_refused_with_the_way(tmp_path):
    with pytest.raises(InputError) as raised:
        tv.score_traces(write(tmp_path / "t.jsonl", *support()), metrics=["tool_recall", "loop_free"])
    assert "tool_recall needs expect.tools" in str(raised.value)
    assert "--outputs traces:FILE" in str(raised.value)


def test_an_unknown_metric_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(InputError, match='Did you mean "loop_free"'):
        tv.score_traces(write(tmp_path / "t.jsonl", *support()), metrics=["loop_fre"])


def test_settings_and_gates_come_from_a_file(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("tools: {ignore: [search]}\ngates: {tool_success: {at_least: 0.5}}\n")
    report = tv.score_traces(write(tmp_path / "t.jsonl", *support()), config=config)
    assert report.summary.metrics["tool_success"].n == 1
    assert [gate.gate for gate in report.summary.gates] == ["tool_success ≥ 0.5"]


def test_a_judge_scores_what_needs_no_reference(tmp_path, monkeypatch):
    with served(JudgeServer(), monkeypatch) as server:
        report = tv.score_traces(write(tmp_path / "t.jsonl", *support()), judge="openai:gpt-4o-mini")
    judged = {name for name, figure in report.summary.metrics.items() if figure.tier == "judge" and figure.n}
    assert "agent.tool_efficiency" in judged
    assert "factual_accuracy" not in judged
    assert "Where is my order?" in json.dumps([str(each) for each in server.requests])


@pytest.mark.parametrize(
    ("lost", "what"),
    [("output", "the trace records no answer"), ("input", "the trace records no question")],
)
def test_what_a_trace_does_not_record_is_not_judged(tmp_path, monkeypatch, lost, what):
    (trace, *_) = support()
    for span in trace["spans"]:
        span.pop(lost, None)
    with served(JudgeServer(), monkeypatch) as server:
        report = tv.score_traces(write(tmp_path / "t.jsonl", trace), judge="openai:gpt-4o-mini")
    (scored,) = tv.Run.load(report.run).evaluations()
    judged = {name: score for name, score in scored.scores.items() if name.startswith("agent.")}
    assert judged
    assert {(score.status, score.missing, score.reason) for score in judged.values()} == {
        ("skipped", True, what)
    }
    assert server.requests == []


def test_a_rubric_needs_a_judge(tmp_path):
    with pytest.raises(InputError, match="needs a judge"):
        tv.score_traces(write(tmp_path / "t.jsonl", *support()), rubric="agent")


@pytest.mark.parametrize("size", [20_000_000])
def test_an_output_above_the_limit_is_left_out_and_the_trace_is_scored(tmp_path, size):
    large = support()[0]
    large["spans"][0]["output"] = "x" * size
    report = tv.score_traces(write(tmp_path / "t.jsonl", large))
    (attempt,) = tv.Run.load(report.run).attempts()
    assert (attempt.output, attempt.error, attempt.flags) == (None, None, ("output_left_out",))
    assert report.summary.metrics["tool_success"].mean == 1


def test_secrets_in_traces_are_stored_masked(tmp_path):
    secret = "sk-proj-" + "A1b2C3d4E5f6G7h8" * 3
    leaky = support()[0]
    leaky["spans"][0]["input"] = f"my key is {secret}"
    report = tv.score_traces(write(tmp_path / "t.jsonl", leaky))
    assert secret not in str(next(tv.Run.load(report.run).cases()).input)


def test_a_metric_of_ones_own_counts_unless_it_names_what_it_needs_of_a_case(tmp_path, monkeypatch):
    (tmp_path / "polite.py").write_text(
        "from trivium import TraceMetric, metric\n"
        "@metric('calls_made')\n"
        "class CallsMade(TraceMetric):\n"
        "    def measure(self, trace, case):\n"
        "        return self.ok(1 / (1 + len(trace.tool_calls)))\n"
        "@metric('as_asked')\n"
        "class AsAsked(CallsMade):\n"
        "    @property\n"
        "    def case_fields(self):\n"
        "        return ('expect.aspects',)\n"
    )
    path = write(tmp_path / "t.jsonl", *support())
    report = tv.score_traces(path, metrics=["polite:CallsMade"])
    assert report.summary.metrics["calls_made"].mean == pytest.approx((1 / 3 + 1 / 3 + 1 / 6 + 1) / 4)
    with pytest.raises(InputError, match="needs expect.aspects"):
        tv.score_traces(path, metrics=["polite:AsAsked"])


def test_several_processes_give_the_same_rows(tmp_path):
    file = write(tmp_path / "t.jsonl", *(native for _ in range(80) for native in support()))
    one = tv.score_traces(file, store="one.db")
    two = tv.score_traces(file, store="two.db", workers=2)
    assert one.traces == 320
    assert one.summary.metrics == two.summary.metrics
    runs = [tv.Run.load(report.run, store=store) for report, store in ((one, "one.db"), (two, "two.db"))]
    assert list(runs[0].attempts()) == list(runs[1].attempts())
    assert list(runs[0].evaluations()) == list(runs[1].evaluations())


def test_a_process_that_finds_no_file_scores_what_it_is_sent(tmp_path):
    """As on another machine: nothing is left of the files that the traces were read from."""
    settings = Settings()
    names = ("completed", "tool_success")
    run = tv.Run.load(
        tv.score_traces(write(tmp_path / "t.jsonl", *support()), store="one.db").run, store="one.db"
    )
    with spooled(
        [tmp_path / "t.jsonl"], format=None, selection=Selection(), limit=settings.limits.output_bytes
    ) as spool:
        part = next(spool.parts())
        task = Task(part, tuple(spool.rows(part)))
        suite = Suite(name="t", cases=spool.cases, settings=settings)
        job = pickle.dumps(Job(None, suite, settings, names, run.record, frozenset({(1, 0)})))
        expected = list(spool.read(part))
    scored = PartScorer(pickle.loads(job)).score(task)
    assert [row["position"] for row in scored.rows.attempts] == [0, 2, 3]
    bodies = [msgspec.json.decode(row["body"], type=Attempt) for row in scored.rows.attempts]
    assert bodies == [attempt for index, (_, attempt) in enumerate(expected) if index != 1]
