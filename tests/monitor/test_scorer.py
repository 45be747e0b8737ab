"""Samples are scored once each, into the monitor's run of the day."""

import json
import random

import msgspec
import pytest
from sqlalchemy import select

import trivium as tv
from tests.monitor.samples import sample, store_samples
from trivium.errors import InputError
from trivium.monitor import day as day_module
from trivium.monitor import scorer as scorer_module
from trivium.monitor.day import DAY
from trivium.monitor.interaction import Recorded, encode_recorded, interaction_recorded
from trivium.monitor.monitored import monitored
from trivium.monitor.scorer import Scorer
from trivium.store import schema
from trivium.store.live_counts import counts_of
from trivium.store.live_jobs import LEASE_SECONDS, MOST_TRIES, LiveJobs
from trivium.store.live_records import Choice, RecordedTrace
from trivium.store.live_samples import RecentSamples, Sample, latest_samples, samples_of
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store
from trivium.traces.trace import Span, SpanUsage, Trace

NOW = 20_000 * DAY + 3600.0


def suite(**settings) -> dict:
    return {"name": "support", **settings}


def trace(*, ok: bool = True) -> Trace:
    return Trace(
        trace_id="inner",
        spans=(
            Span(id="a", kind="agent", name="writer", start=0.0, end=2.0, ok=ok, input="q", output="o"),
            Span(id="t", kind="tool", name="search", parent="a", agent="writer", start=0.5, end=1.0),
        ),
    )


def record(store: Store, *names: str, time: float = NOW, ok: bool = True, **fields) -> None:
    recorded = Recorded(time=time, input="what?", output="this", trace=trace(ok=ok), **fields)
    each = [
        RecordedTrace(
            trace_id=name,
            body=encode_recorded(recorded),
            choices=[Choice(monitor="support", sampled=True, probability=0.5, weight=0.25, rule="errors")],
        )
        for name in names
    ]
    LiveTraces(store).record(each, time)


def test_an_interaction_becomes_a_sample_with_its_scores(any_url):
    with Store(any_url) as store, Scorer(store, monitored(suite())) as scorer:
        record(store, "t1", tags=("vip",), version="1.2", session="s1")
        assert scorer.score_all(NOW) == 1
        (sample,) = samples_of(store, "support", figures=["completed", "tool_success"])
        assert (sample.trace, sample.passed, sample.score, sample.failed) == ("t1", True, 1.0, False)
        assert (sample.probability, sample.weight, sample.rule) == (0.5, 0.25, "errors")
        assert (sample.query, sample.output, sample.session) == ("what?", "this", "s1")
        assert sample.facets["agent"] == ("writer",)
        assert sample.facets["tool"] == ("search",)
        assert sample.facets["tag"] == ("vip",)
        assert sample.facets["version"] == ("1.2",)
        assert sample.scores == {"completed": 1.0, "tool_success": 1.0}
        assert counts_of(store)["support", "scored", ""] == 1
        assert LiveJobs(store).of_trace("t1")[0].state == "done"
        assert LiveJobs(store).backlog("support").waiting == 0


LISTED = SpanUsage(input_tokens=1_000_000, output_tokens=0)


@pytest.mark.parametrize(
    ("requests", "cost"),
    [
        ([("llm-1", SpanUsage(cost_usd=0.25)), ("llm-1", SpanUsage(cost_usd=0.5))], 0.75),
        ([("gpt-4o-mini", LISTED)], 0.15),
        ([("gpt-4o-mini", LISTED), ("a model of our own", LISTED)], None),
        ([("llm-1", None)], None),
        ([("llm-1", SpanUsage(cost_usd=0.0))], 0.0),
        ([], None),
    ],
)
def test_a_sample_has_the_cost_of_its_interaction_if_all_of_it_is_known(url, requests, cost):
    spans = [
        Span(id=str(place), kind="llm", name=name, start=0.0, end=1.0, usage=usage)
        for place, (name, usage) in enumerate(requests)
    ]
    recorded = Recorded(time=NOW, input="what?", output="this", trace=Trace(spans=tuple(spans)))
    choice = Choice(monitor="support", sampled=True, probability=1.0)
    received = RecordedTrace(trace_id="t1", body=encode_recorded(recorded), choices=[choice])
    with Store(url) as store, Scorer(store, monitored(suite())) as scorer:
        LiveTraces(store).record([received], NOW)
        scorer.score_all(NOW)
        (found,) = samples_of(store, "support")
    assert found.cost_usd == (None if cost is None else pytest.approx(cost))


def test_a_sample_is_an_attempt_of_the_run_of_its_day(any_url):
    with Store(any_url) as store, Scorer(store, monitored(suite())) as scorer:
        record(store, "t1", "t2")
        scorer.score_all(NOW)
        record(store, "t3", time=NOW + DAY)
        scorer.score_all(NOW + DAY)
        today, yesterday = store.runs()
        assert (yesterday.kind, yesterday.suite_name, yesterday.state) == ("live", "support", "done")
        assert today.state == "running"
        assert yesterday.summary["attempts"] == 2
        assert [case.id for case in store.cases(yesterday.suite)] == ["t1", "t2"]
        assert [each.attempt.case for each in store.attempts(today)] == ["t3"]
        assert "trivium monitor status" in yesterday.provenance.notes[0]


def test_two_scorers_score_each_sample_once(any_url):
    with Store(any_url) as store, Scorer(store, monitored(suite())) as first:
        with Store(any_url) as other, Scorer(other, monitored(suite())) as second:
            record(store, *(f"t{number}" for number in range(100)))
            taken = [first.score_once(NOW), second.score_once(NOW)]
            while number := first.score_once(NOW) + second.score_once(NOW):
                taken.append(number)
        assert sum(taken) == 100
        assert sorted(sample.trace for sample in samples_of(store, "support")) == sorted(
            f"t{number}" for number in range(100)
        )
        assert len(store.runs()) == 1


def test_the_job_of_a_killed_scorer_is_taken_up_again_and_scored_once(any_url):
    """Also if it was only slow: what it scores after all is not stored a second time."""
    with Store(any_url) as store, Scorer(store, monitored(suite())) as scorer:
        record(store, "t1")
        jobs = LiveJobs(store)
        (slow,) = jobs.lease("support", owner="other", now=NOW, limit=5)
        assert scorer.score_once(NOW) == 0
        later = NOW + LEASE_SECONDS
        assert scorer.score_once(later) == 1
        with Scorer(store, monitored(suite())) as other:
            other._score([slow], later)
        assert len(samples_of(store, "support")) == 1
        assert counts_of(store)["support", "scored", ""] == 1
        with store.engine.connect() as connection:
            assert len(connection.execute(select(schema.attempts)).all()) == 1


def test_a_scorer_that_lost_its_lease_changes_nothing(any_url):
    """Neither a job that another one has now, nor one that another one has done."""
    with Store(any_url) as store, Scorer(store, monitored(suite())) as scorer:
        record(store, "t1")
        jobs = LiveJobs(store)
        (slow,) = jobs.lease("support", owner="slow", now=NOW, limit=5)
        jobs.lease("support", owner="other", now=NOW + LEASE_SECONDS, limit=5)
        (other,) = jobs.of_trace("t1")
        jobs.give_back([slow], now=NOW + LEASE_SECONDS)
        jobs.retry(slow, now=NOW + LEASE_SECONDS, reason="slow")
        jobs.supersede(slow, now=NOW + LEASE_SECONDS)
        assert jobs.of_trace("t1") == [other]
        scorer._score([other], NOW + LEASE_SECONDS)
        jobs.retry(msgspec.structs.replace(other, tries=MOST_TRIES), now=NOW, reason="slow")
        assert jobs.of_trace("t1")[0].state == "done"
        assert not {event for _, event, _ in +counts_of(store)} & {"failed", "dropped"}


def test_a_renewed_lease_is_the_scorers_own(any_url):
    with Store(any_url) as store:
        record(store, "t1")
        jobs = LiveJobs(store)
        mine = jobs.lease("support", owner="me", now=NOW, limit=5)
        jobs.renew(mine, owner="me", now=NOW + 500)
        assert jobs.lease("support", owner="other", now=NOW + LEASE_SECONDS, limit=5) == []
        jobs.renew(mine, owner="somebody", now=NOW + 5000)
        assert jobs.lease("support", owner="other", now=NOW + 500 + LEASE_SECONDS, limit=5)


def test_what_cannot_be_read_is_tried_again_later_then_fails_with_a_reason(any_url):
    with Store(any_url) as store, Scorer(store, monitored(suite())) as scorer:
        choice = Choice(monitor="support", sampled=True, probability=1.0)
        LiveTraces(store).record([RecordedTrace(trace_id="bad", body=b"{", choices=[choice])], NOW)
        now, tries = NOW, 0
        while (job := LiveJobs(store).of_trace("bad")[0]).state != "failed":
            assert tries < MOST_TRIES
            tries += scorer.score_once(now)
            assert scorer.score_once(now) == 0  # not at once
            now += LEASE_SECONDS * 10
        assert tries == MOST_TRIES
        assert "what was recorded cannot be read" in job.reason
        assert counts_of(store)["support", "failed", "error"] == 1


def test_a_job_whose_scorers_are_all_killed_fails(any_url):
    with Store(any_url) as store:
        record(store, "t1")
        jobs, now = LiveJobs(store), NOW
        for _ in range(MOST_TRIES):
            assert jobs.lease("support", owner="x", now=now, limit=1)
            now += LEASE_SECONDS
        assert jobs.lease("support", owner="x", now=now, limit=1) == []
        assert jobs.of_trace("t1")[0].reason == "its scorers ended while they scored it"


def test_above_the_bound_of_the_backlog_the_oldest_are_dropped_and_counted(any_url):
    settings = {"monitor": {"backlog": 3}}
    with Store(any_url) as store, Scorer(store, monitored(suite(**settings))) as scorer:
        record(store, "t0")
        with store.engine.begin() as connection:  # the planner goes by what the tables held at some time
            connection.exec_driver_sql("ANALYZE live_jobs")
        record(store, *(f"t{number}" for number in range(1, 5)))
        scorer.score_all(NOW)
        assert [sample.trace for sample in samples_of(store, "support")] == ["t2", "t3", "t4"]
        assert counts_of(store)["support", "dropped", "backlog"] == 2
        assert "more than 3 samples waited" in LiveJobs(store).of_trace("t0")[0].reason


def test_a_newer_version_is_scored_once_more_and_is_the_one_that_counts(any_url):
    with Store(any_url) as store, Scorer(store, monitored(suite())) as scorer:
        record(store, "t1", "t2")
        scorer.score_all(NOW)
        record(store, "t1", ok=False)
        scorer.score_all(NOW)
        newest = {sample.trace: sample for sample in samples_of(store, "support")}
        assert (newest["t1"].version, newest["t1"].passed, newest["t2"].passed) == (2, False, True)
        (run,) = store.runs()
        assert [case.id for case in store.cases(run.suite)] == ["t1", "t2", "t1#2"]


def test_an_older_version_that_waits_is_left_to_the_newer_one(any_url):
    with Store(any_url) as store, Scorer(store, monitored(suite())) as scorer:
        record(store, "t1")
        record(store, "t1", ok=False)
        scorer.score_all(NOW)
        assert [sample.version for sample in samples_of(store, "support")] == [2]
        assert [job.state for job in LiveJobs(store).of_trace("t1")] == ["dropped", "done"]


def test_samples_are_chosen_by_number_time_and_count(any_url):
    with Store(any_url) as store, Scorer(store, monitored(suite())) as scorer:
        for number in range(4):
            record(store, f"t{number}", time=NOW + number)
            scorer.score_all(NOW + number)
        numbers = [sample.number for sample in samples_of(store, "support")]

        def names(**options) -> list[str]:
            return [sample.trace for sample in samples_of(store, "support", **options)]

        def latest(number: int, **options) -> list[str]:
            return [sample.trace for sample in latest_samples(store, "support", number, **options)]

        assert names(after=numbers[1]) == ["t2", "t3"]
        assert names(limit=2) == ["t0", "t1"]
        assert latest(2) == ["t2", "t3"]
        assert latest(2, before=numbers[3]) == ["t1", "t2"]
        assert latest(9, since=NOW + 1, until=NOW + 3) == ["t1", "t2"]
        assert samples_of(store, "another") == []


def version_of(trace: int, version: int, **fields) -> Sample:
    return msgspec.structs.replace(sample(trace, **fields), version=version)


def test_recent_samples_are_the_latest_ones_whatever_came_and_went(any_url):
    draw, table = random.Random(5), schema.live_samples
    with Store(any_url) as store:
        recent = RecentSamples(store, "support")
        for step in range(60):
            traces = draw.sample(range(40), draw.randrange(4))
            store_samples(store, [version_of(trace, step, time=NOW + trace) for trace in traces])
            if step % 10 == 9:  # retention
                with store.engine.begin() as connection:
                    connection.execute(table.delete().where(table.c.time < NOW + draw.randrange(9)))
            asked = {"since": NOW + draw.choice((step // 4, 0)), "figures": draw.choice(((), ("judge",)))}
            number = draw.choice((5, 5, 1_000))
            assert recent.latest(number, **asked) == latest_samples(store, "support", number, **asked)


def test_recent_samples_are_read_again_once_retention_deleted_some(any_url):
    table = schema.live_samples
    with Store(any_url) as store:
        recent = RecentSamples(store, "support")
        store_samples(store, [sample(n) for n in range(4)])
        for made, gone in (([4, 5], 2), ([6, 7, 8, 9, 10], 4)):
            kept = [each.number for each in recent.latest(100)]
            assert len(kept) == 4
            with store.engine.begin() as connection:
                connection.execute(table.delete().where(table.c.number.in_(kept[:gone])))
            store_samples(store, [sample(n) for n in made])
            assert recent.latest(100) == latest_samples(store, "support", 100)


def test_recent_samples_are_read_once(any_url, monkeypatch):
    with Store(any_url) as store:
        recent = RecentSamples(store, "support")
        store_samples(store, [sample(n) for n in range(5)])
        assert len(recent.latest(100)) == 5
        monkeypatch.setattr("trivium.store.live_samples.latest_samples", pytest.fail)
        store_samples(store, [sample(5), version_of(0, 2)])
        assert [each.trace for each in recent.latest(100)] == ["t1", "t2", "t3", "t4", "t5", "t0"]
        assert [each.trace for each in recent.latest(3)] == ["t4", "t5", "t0"]


def test_a_monitor_without_metrics_computes_those_that_need_no_case():
    made = monitored(suite())
    assert "tool_efficiency" in made.settings.metrics
    assert "jaccard" not in made.settings.metrics
    assert made.settings.passed.metric == "completed"
    assert made.settings.composite.weights == {"completed": 1.0}


def test_rules_of_the_suite_stay():
    own = {
        "metrics": ["loop_free"],
        "pass": {"metric": "loop_free"},
        "composite": {"weights": {"loop_free": 1.0}},
    }
    made = monitored(suite(**own))
    assert made.settings.passed.metric == "loop_free"
    assert made.settings.composite.weights == {"loop_free": 1.0}


@pytest.mark.parametrize(
    ("name", "why"), [("jaccard", "references"), ("path_agreement", "attempts of one case")]
)
def test_a_metric_that_needs_a_case_is_refused(name, why):
    with pytest.raises(InputError, match=why):
        monitored(suite(metrics=[name]))


def test_a_judged_monitor_passes_by_its_rubric():
    made = monitored(suite(judge={"models": ["test"], "rubric": "agent"}))
    assert made.settings.passed is None
    assert made.settings.composite.weights == {"agent.overall": 1.0}


def test_a_suite_of_tests_is_a_monitor_with_the_same_scorers(tmp_path):
    (tmp_path / "suite.yaml").write_text(
        "name: support\nmetrics: [loop_free]\nmonitor: {sample_rate: 0.5}\ncases: [{id: a, input: q}]\n"
    )
    made = monitored(tmp_path / "suite.yaml", monitor={"backlog": 7})
    assert (made.name, made.settings.metrics) == ("support", ("loop_free", "completed"))
    assert (made.monitor.sample_rate, made.monitor.backlog) == (0.5, 7)


def test_a_file_of_settings_alone_is_a_monitor(tmp_path):
    (tmp_path / "support.yaml").write_text("name: support\nmonitor: {sample_rate: 0.5}\n")
    assert monitored(tmp_path / "support.yaml").monitor.sample_rate == 0.5
    (tmp_path / "support.yaml").write_text("monitor: {sample_rat: 0.5}\nname: x\n")
    with pytest.raises(InputError, match="sample_rate"):
        monitored(tmp_path / "support.yaml")
    (tmp_path / "support.yaml").write_text("monitor: {sample_rate: 0.5}\n")
    with pytest.raises(InputError, match="a monitor needs a name"):
        monitored(tmp_path / "support.yaml")


def test_what_json_cannot_hold_is_recorded_as_text():
    body = encode_recorded(Recorded(time=1.0, input={1, 2}, output=object(), metadata={"x": float("nan")}))
    interaction = interaction_recorded("t", body)
    assert "object" in interaction.output
    json.dumps(interaction.input)


def test_an_error_fails_the_interaction():
    interaction = interaction_recorded("t", encode_recorded(Recorded(time=1.0, input="q", error="boom")))
    assert interaction.failed
    assert interaction.attempt(limit=100).error == "boom"


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_characters_that_a_store_cannot_hold_are_replaced(any_url, text):
    with Store(any_url) as store, Scorer(store, monitored(suite())) as scorer:
        record(store, "t1", tags=(text,), version=text, service=text, session=text, metadata={text: text})
        record(store, "t2", error=text)
        scorer.score_all(NOW)
        first, second = samples_of(store, "support")
        assert "\0" not in first.session
        assert second.failed
        record(store, "t3")
        (job,) = LiveJobs(store).lease("support", owner="me", now=NOW, limit=1)
        LiveJobs(store).retry(job, now=NOW, reason=f"cannot read {text}")
        assert LiveJobs(store).of_trace("t3")[0].reason.startswith("cannot read ")


def test_a_sample_that_cannot_be_scored_holds_up_no_other(any_url, monkeypatch):
    def evaluation(attempt, scores, settings):
        if attempt.case == "t3":
            raise RuntimeError("no way")
        return real(attempt, scores, settings)

    real = scorer_module.evaluation
    monkeypatch.setattr(scorer_module, "evaluation", evaluation)
    with Store(any_url) as store, Scorer(store, monitored(suite())) as scorer:
        record(store, *(f"t{number}" for number in range(6)))
        scorer.score_once(NOW)
        assert [sample.trace for sample in samples_of(store, "support")] == ["t0", "t1", "t2", "t4", "t5"]
        (job,) = LiveJobs(store).of_trace("t3")
        assert (job.state, job.tries, job.reason) == ("waiting", 1, "RuntimeError: no way")


def test_a_day_that_cannot_be_summed_up_does_not_end_scoring(tmp_path, monkeypatch, caplog):
    def summarise(store, run):
        raise RuntimeError("no way")

    monkeypatch.setattr(day_module, "summarise", summarise)
    with Store(str(tmp_path / "store.db")) as store, Scorer(store, monitored(suite())) as scorer:
        for day in range(2):
            record(store, f"t{day}", time=NOW + day * DAY)
            scorer.score_all(NOW + day * DAY)
        assert len(samples_of(store, "support")) == 2
        assert "cannot be summarised: no way" in caplog.text


def test_the_key_in_the_address_of_a_channel_is_in_no_file_of_the_store(tmp_path):
    """A part of a path that looks like a word is not refused, and may be a key all the same."""
    channels = [{"webhook": "http://127.0.0.1:9/T000/SLACKSECRET99", "headers": {"x-room": "innerroom"}}]
    watched = suite(monitor={"alerts": {"channels": channels}})
    with Store(str(tmp_path / "store.db")) as store, Scorer(store, monitored(watched)) as scorer:
        record(store, "t0")
        scorer.score_all(NOW)
        cases = [{"id": "a", "input": "q", "references": ["o"]}]
        tv.evaluate({**watched, "cases": cases, "metrics": ["success"]}, agent=lambda _: "o", store=store)
        for run in store.runs():
            (channel,) = run.settings.monitor.alerts.channels
            assert channel.webhook == "http://127.0.0.1:9/[masked]"
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"http://127.0.0.1:9/" in files
    assert b"SLACKSECRET99" not in files
    assert b"innerroom" not in files
