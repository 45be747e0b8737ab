"""Scorers that are killed again and again, two at a time: every sample is scored, each once."""

import json
import os
import random
import signal
import subprocess
import sys

from sqlalchemy import event, func, select

from tests.monitor.test_scorer import NOW, record, suite
from trivium.monitor import scorer
from trivium.monitor.monitored import Monitored, monitored
from trivium.store import live_jobs, schema
from trivium.store.live_counts import counts_of
from trivium.store.store import Store

METRICS = ["completed", "tool_success", "loop_free"]
ROUNDS = 10
SAMPLES = 150
UNLUCKY = 1000
"""Tries of a job, which is not to fail: one may be in the hands of a scorer that is killed in each round."""


def score_until_killed(store: Store, support: Monitored, round_: int, statements: int) -> None:
    """Score, and end by SIGKILL at a statement or commit: a lease, a read, or in the midst of storing scores.

    Args:
        store: The store.
        support: The monitor.
        round_: Number of the round: leases of earlier rounds have ended.
        statements: Statements and commits after which the process is killed.
    """
    left = [statements]

    def count(*_: object) -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    live_jobs.MOST_TRIES = UNLUCKY
    scorer.JOBS_AT_ONCE = 4
    event.listen(store.engine, "before_cursor_execute", count)
    event.listen(store.engine, "commit", count)
    scorer.Scorer(store, support).score_all(NOW + round_ * live_jobs.LEASE_SECONDS)


def kill_again_and_again(url: str) -> None:
    """Run two scorers at a time until both are killed or have nothing left to do, and print how many were."""
    draw = random.Random(7)
    killed = 0
    support = monitored(suite(metrics=METRICS))
    with Store(url) as store, scorer.Scorer(store, support) as first:
        first.score_once(NOW)  # what a child would do more slowly the first time
        store.engine.dispose()
        for round_ in range(ROUNDS):
            children = []
            for _ in range(2):
                statements = draw.randrange(1, 70)
                child = os.fork()
                if child == 0:
                    try:
                        score_until_killed(store, support, round_, statements)
                        os._exit(0)
                    finally:
                        os._exit(1)
                children.append(child)
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            assert set(codes) <= {0, -signal.SIGKILL}, codes
            killed += codes.count(-signal.SIGKILL)
    print(json.dumps(killed))


def test_every_sample_is_scored_once_whenever_scorers_are_killed(any_url, monkeypatch):
    monkeypatch.setattr(live_jobs, "MOST_TRIES", UNLUCKY)
    names = [f"t{number}" for number in range(SAMPLES)]
    with Store(any_url) as store:
        record(store, *names)
    program = (
        "import sys; from tests.monitor import test_killed_scorers as here; "
        "here.kill_again_and_again(sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", program, any_url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) > ROUNDS
    samples, attempts, scores, jobs = (
        schema.live_samples, schema.attempts, schema.live_scores, schema.live_jobs
    )  # fmt: skip
    with Store(any_url) as store, store.engine.connect() as connection:
        before = connection.execute(select(func.count()).select_from(samples)).scalar_one()
        assert 50 < before < SAMPLES  # the killed ones had done much, and left something
        connection.rollback()
        with scorer.Scorer(store, monitored(suite(metrics=METRICS))) as last:
            last.score_all(NOW + ROUNDS * live_jobs.LEASE_SECONDS)
        rows = connection.execute(select(samples.c.trace, samples.c.position)).all()
        assert sorted(trace for trace, _ in rows) == sorted(names)
        assert sorted(position for _, position in rows) == list(range(SAMPLES))
        assert connection.execute(select(func.count()).select_from(attempts)).scalar_one() == SAMPLES
        of_each = connection.execute(select(func.count()).select_from(scores).group_by(scores.c.trace))
        assert {number for (number,) in of_each} == {len(METRICS)}
        assert {state for (state,) in connection.execute(select(jobs.c.state))} == {"done"}
        assert counts_of(store)["support", "scored", ""] == SAMPLES
        assert len(store.runs()) == 1
