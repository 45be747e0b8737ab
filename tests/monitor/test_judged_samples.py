"""Samples are judged within the day's budget; what is paid for once is not paid for again."""

import signal
import subprocess
import sys
import threading

import pytest

from tests.judge_server import ANSWER, HANG, failure
from tests.monitor.test_scorer import NOW
from tests.runs.judging.suites import MODEL, PRICES, billed, provider
from trivium.errors import StoreError
from trivium.monitor.day import DAY, with_day_budget
from trivium.monitor.interaction import Recorded, encode_recorded
from trivium.monitor.monitored import Monitored, monitored
from trivium.monitor.reasons import reasons
from trivium.monitor.scorer import Scorer
from trivium.runs.run import Run
from trivium.store import schema
from trivium.store.live_counts import counts_of
from trivium.store.live_jobs import FIRST_WAIT_SECONDS, LEASE_SECONDS, MOST_TRIES, LiveJobs
from trivium.store.live_records import Choice, RecordedTrace
from trivium.store.live_samples import samples_of
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store

BUDGET_USD = 0.004


def judged(*, budget: float | None = None, **judge) -> Monitored:
    settings = {
        "name": "judged",
        "judge": {"models": [MODEL], "prices": PRICES, "rubric": "agent"} | judge,
    }
    return monitored(settings, monitor={} if budget is None else {"budget_usd_per_day": budget})


def record(store: Store, *numbers: int, time: float = NOW) -> None:
    choice = Choice(monitor="judged", sampled=True, probability=1.0)
    bodies = {
        f"t{number}": Recorded(time=time, input=f"question {number}", output=f"It is {number}, surely.")
        for number in numbers
    }
    recorded = [
        RecordedTrace(trace_id=id_, body=encode_recorded(body), choices=[choice])
        for id_, body in bodies.items()
    ]
    LiveTraces(store).record(recorded, time)


def score(store: Store, monitor: Monitored, *, now: float = NOW) -> None:
    with Scorer(store, monitor) as scorer:
        scorer.score_all(now)


def test_a_judged_sample_has_the_judges_score_and_confidence(any_url, monkeypatch):
    with provider(monkeypatch) as server, Store(any_url) as store:
        record(store, 1)
        score(store, judged())
        (sample,) = samples_of(store, "judged", figures=["agent.overall", "completeness"])
        assert len(server.requests) == 1
        assert 0 < sample.scores["agent.overall"] <= 1
        assert sample.score == sample.scores["agent.overall"]
        assert sample.passed == (sample.score >= 0.7)
        assert 0 <= sample.confidence <= 1
        summary = Run(store, store.live_runs("judged")[0]).summary()
        assert summary.spent.cost_usd == pytest.approx(billed(server)[0])


@pytest.mark.parametrize(
    ("on_failure", "status"), [("tier1", "skipped"), ("skip", "skipped"), ("fail", "error")]
)
def test_the_budget_of_a_day_is_kept_and_the_rest_is_scored_without_a_judge(
    tmp_path, monkeypatch, on_failure, status
):
    """Also by several scorers, one after the other and at once; the next day has a budget of its own."""
    monitor = judged(budget=BUDGET_USD, on_failure=on_failure)
    with provider(monkeypatch) as server, Store(str(tmp_path / "store.db")) as store:
        record(store, *range(30))
        score(store, monitor)
        usd, _ = billed(server)
        assert 0 < usd <= BUDGET_USD
        asked = len(server.requests)
        assert asked < 30
        samples = samples_of(store, "judged")
        assert len(samples) == 30
        assert sum(sample.passed is not None for sample in samples) == asked
        summary = Run(store, store.live_runs("judged")[0]).summary()
        assert summary.metrics["completeness"].status == {"ok": asked, status: 30 - asked}
        assert counts_of(store)["judged", "unjudged", "budget"] == 30 - asked
        assert "the budget of $0.004 is used up" in " ".join(summary.warnings)
        for sample in samples:
            (why,) = reasons(store, sample.trace, now=NOW)
            assert ("the budget of $0.004 is used up" in why.sentence) == (sample.passed is None)

        record(store, *range(30, 40))
        score(store, monitor, now=NOW + 3600)
        assert billed(server)[0] <= BUDGET_USD
        assert len(samples_of(store, "judged")) == 40

        today = len(server.requests)
        record(store, *range(40, 43), time=NOW + DAY)
        score(store, monitor, now=NOW + DAY)
        assert len(server.requests) > today


def test_scorers_at_once_share_the_budget_of_the_day(tmp_path, monkeypatch):
    monitor = judged(budget=BUDGET_USD, on_failure="skip")
    with provider(monkeypatch) as server, Store(str(tmp_path / "store.db")) as store:
        record(store, *range(40))
        with Store(store.url) as other, Scorer(store, monitor) as first, Scorer(other, monitor) as second:
            first.score_once(NOW)
            asked = len(server.requests)
            assert 0 < asked < 32
            second.score_once(NOW)
        assert 0 < billed(server)[0] <= BUDGET_USD


@pytest.mark.parametrize(
    ("of_a_day", "of_a_run", "counts"), [(2.0, 0.5, 0.5), (0.2, 0.5, 0.2), (0.2, None, 0.2), (None, 0.5, 0.5)]
)
def test_the_lower_of_both_budgets_counts(of_a_day, of_a_run, counts):
    own = {} if of_a_run is None else {"budget_usd": of_a_run}
    assert with_day_budget(judged(budget=of_a_day, **own)).judge.budget_usd == counts


def test_a_run_of_tests_may_have_a_time_limit_and_a_monitor_has_none():
    assert with_day_budget(judged(time_limit=5)).judge.time_limit is None


def test_a_sample_whose_judge_failed_is_judged_later(any_url, monkeypatch):
    down = [True]

    def fail(_):
        return failure(401) if down[0] else ANSWER

    with provider(monkeypatch, plan=fail), Store(any_url) as store:
        record(store, 1, 2)
        score(store, judged())
        assert samples_of(store, "judged") == []
        (job,) = LiveJobs(store).of_trace("t1")
        assert (job.state, job.tries, job.due) == ("waiting", 1, NOW + FIRST_WAIT_SECONDS)
        assert "a judge did not answer: no judge: gpt-4o-mini" in job.reason
        down[0] = False
        score(store, judged(), now=NOW + FIRST_WAIT_SECONDS)
        assert [sample.passed is not None for sample in samples_of(store, "judged")] == [True, True]
        assert counts_of(store)["judged", "unjudged", "failing"] == 0
        assert counts_of(store)["judged", "scored", ""] == 2


def test_a_sample_whose_judge_always_fails_is_kept_in_the_end_and_counted(tmp_path, monkeypatch):
    def fail(_):
        return failure(401)

    with provider(monkeypatch, plan=fail), Store(str(tmp_path / "store.db")) as store:
        record(store, 1)
        with store.engine.begin() as connection:
            connection.execute(schema.live_jobs.update().values(tries=MOST_TRIES - 1))
        score(store, judged())
        assert [each.passed for each in samples_of(store, "judged")] == [None]
        assert counts_of(store)["judged", "unjudged", "failing"] == 1
        assert [job.state for job in LiveJobs(store).of_trace("t1")] == ["done"]


def test_judges_go_on_when_the_store_failed_for_a_while(any_url, monkeypatch):
    """What they spend could not be recorded; then it can."""
    with provider(monkeypatch), Store(any_url) as store, Scorer(store, judged()) as scorer:

        def rename(old: str, new: str) -> None:
            with store.engine.begin() as connection:
                connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")

        record(store, 1)
        scorer.score_all(NOW)
        rename("spending", "gone")
        last, failed = 1, False
        while not failed:  # spending is written in the background: a later judgement finds that it failed
            last += 1
            record(store, last)
            try:
                scorer.score_all(NOW)
            except StoreError:
                failed = True
        rename("gone", "spending")
        scorer.score_all(NOW + LEASE_SECONDS)
        verdicts = {each.trace: each.passed is not None for each in samples_of(store, "judged")}
        assert verdicts == {f"t{number}": True for number in range(1, last + 1)}


def test_what_was_judged_before_is_not_paid_for_again(tmp_path, monkeypatch):
    """A trace that got a late span, and the same question with the same answer on another day."""
    with provider(monkeypatch) as server, Store(str(tmp_path / "store.db")) as store:
        record(store, 1)
        score(store, judged())
        record(store, 1)
        score(store, judged(), now=NOW + DAY)
        assert len(server.requests) == 1
        versions = [(sample.version, sample.passed is not None) for sample in samples_of(store, "judged")]
        assert versions == [(2, True)]
        assert counts_of(store)["judged", "scored", ""] == 2


KILLED = """
import os, signal, sys, time
from tests.monitor import test_judged_samples as here
from trivium.monitor import scorer
from trivium.store.judge_cache import cache_size

def die(store, *_):
    end = time.monotonic() + 60
    while cache_size(store).answers < 4:
        if time.monotonic() > end:
            sys.exit(f"{cache_size(store).answers} of 4 answers are kept after a minute")
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

scorer.save_scored = die
with here.Store(sys.argv[1]) as store:
    here.score(store, here.judged(budget=here.BUDGET_USD))
"""


def test_the_answers_of_a_killed_scorer_are_not_paid_for_again(tmp_path, monkeypatch):
    """It is killed when everything is judged and kept, and no score is stored."""
    with provider(monkeypatch) as server, Store(str(tmp_path / "store.db")) as store:
        record(store, *range(4))
        killed = subprocess.run([sys.executable, "-c", KILLED, store.url], capture_output=True, text=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert samples_of(store, "judged") == []
        score(store, judged(budget=BUDGET_USD), now=NOW + LEASE_SECONDS)
        assert len(samples_of(store, "judged")) == 4
        assert len(server.requests) == 4
        assert billed(server)[0] <= BUDGET_USD


def test_a_scorer_that_is_stopped_waits_for_no_judge_and_leaves_the_sample_to_others(tmp_path, monkeypatch):
    asked = threading.Event()

    def hang(question):
        asked.set()
        return HANG

    with Store(str(tmp_path / "store.db")) as store:
        record(store, 1)
        with provider(monkeypatch, plan=hang):
            scorer = Scorer(store, judged(timeout=600), clock=lambda: NOW)
            scorer.start()
            assert asked.wait(60)
            scorer.stop()
        (job,) = LiveJobs(store).of_trace("t1")
        assert (job.state, job.tries) == ("waiting", 0)
        with provider(monkeypatch):
            score(store, judged())
        assert [sample.trace for sample in samples_of(store, "judged")] == ["t1"]
