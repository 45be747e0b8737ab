"""Several processes score one monitor: together they keep the day's budget, and score nothing twice."""

import subprocess
import sys

import pytest
from sqlalchemy import select

from tests.monitor.test_judged_samples import record
from tests.runs.judging.suites import billed, provider
from trivium.store import schema
from trivium.store.judge_ledger import committed_of
from trivium.store.live_counts import counts_of
from trivium.store.live_samples import samples_of
from trivium.store.store import Store

BUDGET_USD = 0.006
SAMPLES = 50

SCORE = """
import os, sys
from tests.monitor import test_judged_samples as here
from trivium.monitor import scorer

scorer.JOBS_AT_ONCE = 4
monitor = here.judged(budget=float(sys.argv[2]), on_failure="skip")
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with here.Store(sys.argv[1]) as store, scorer.Scorer(store, monitor) as one:
                taken = one.score_all(here.NOW)
                os.write(1, f"{taken}\\n".encode())
            code = 0
        finally:
            os._exit(code)
    children.append(child)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def test_processes_at_once_keep_the_budget_and_score_nothing_twice(any_url, monkeypatch):
    with provider(monkeypatch) as server, Store(any_url) as store:
        record(store, *range(SAMPLES))
        command = [sys.executable, "-c", SCORE, any_url, str(BUDGET_USD)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        taken = [int(line) for line in done.stdout.split()]
        assert len(taken) == 2
        assert all(taken)
        assert sum(taken) == SAMPLES

        usd, _ = billed(server)
        # What is left over depends on how many answers were on their way when the rest was refused.
        assert 0 < usd <= BUDGET_USD

        samples = samples_of(store, "judged")
        assert sorted(sample.trace for sample in samples) == sorted(f"t{number}" for number in range(SAMPLES))
        assert sum(sample.passed is not None for sample in samples) == len(server.requests)
        assert counts_of(store)["judged", "scored", ""] == SAMPLES
        (run,) = store.live_runs("judged")
        assert committed_of(store, run)[0] == pytest.approx(usd)
        with store.engine.connect() as connection:
            assert set(connection.execute(select(schema.live_jobs.c.state)).scalars()) == {"done"}
