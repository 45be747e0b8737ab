"""Tests the judge ledger: spending is recorded during a run and read when it is resumed."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from sqlalchemy.exc import OperationalError

from tests.store.samples import new_run
from trivium.errors import StoreError
from trivium.metrics.judge.budget.ledger import Draw, Spending
from trivium.store import schema
from trivium.store.judge_ledger import StoredLedger, committed_of, entries_of
from trivium.store.store import Store

CLARITY = ("openai:m", ("clarity",))
BOTH = ("openai:m", ("clarity", "tool_usage"))
ONE = Spending(requests=2, answered=1, input_tokens=10, output_tokens=5, cost_usd=0.125, unknown=1)


def test_recorded_spending_adds_up_and_is_read_back(any_url):
    with Store(any_url) as store:
        run = new_run(store)
        for _ in range(2):
            ledger = StoredLedger(store, run)
            for _ in range(50):
                ledger.record(CLARITY, ONE)
            ledger.record(BOTH, Spending(from_cache=3, unpriced=1, unknown_usd=0.5, unknown_tokens=7))
            ledger.close()
        found = entries_of(store, run)
        assert found[CLARITY] == sum([ONE] * 100, Spending())
        assert found[CLARITY].cost_usd == 12.5
        assert found[BOTH].from_cache == 6
        assert found[BOTH].most_usd == 1.0
        assert dict(ledger.entries()) == dict(found)
        assert entries_of(store, new_run(store, id="r2")) == {}


def test_committed_amounts_are_stored_when_the_call_returns(any_url):
    with Store(any_url) as store:
        run = new_run(store)
        ledger = StoredLedger(store, run)
        for total in ((0.5, 10), (1.0, 20), (1.5, 30)):
            assert ledger.draw(Draw(usd=0.5, tokens=10))
            assert committed_of(store, run) == ledger.committed() == total
        ledger.give_back(usd=1.25, tokens=25)
        ledger.close()
        assert StoredLedger(store, run).committed() == (0.25, 5)


@pytest.mark.parametrize("limit", [{"budget_usd": 1.0}, {"budget_tokens": 20}])
def test_ledgers_of_one_run_draw_no_more_than_the_budget_together(any_url, limit):
    with Store(any_url) as store, Store(any_url) as other:
        run = new_run(store)
        one, two = StoredLedger(store, run), StoredLedger(other, run)
        draw = Draw(usd=0.5, tokens=10, **limit)
        assert [each.draw(draw) for each in (one, two, one, two)] == [True, True, False, False]
        one.give_back(usd=0.5, tokens=10)
        one.close()
        assert [two.draw(draw), two.draw(draw)] == [True, False]
        two.close()


@pytest.mark.parametrize("any_url", ["postgresql"], indirect=True)
def test_processes_that_wait_for_one_another_in_a_circle_lose_nothing(any_url):
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with Store(any_url) as store, Store(any_url) as other:
        run = new_run(store)
        ledger = StoredLedger(store, run)
        for entry in (CLARITY, BOTH):
            ledger.record(entry, ONE)
        ledger.close()
        ledger, table = StoredLedger(store, run), schema.spending
        change = table.update().values(requests=table.c.requests)
        with suppress(OperationalError), other.engine.begin() as connection:  # one of the two is broken off
            connection.exec_driver_sql("SET LOCAL deadlock_timeout = '30s'")
            connection.execute(change.where(table.c.about != CLARITY[1][0]))
            for entry in (BOTH, CLARITY):
                ledger.record(entry, ONE)
            while not connection.exec_driver_sql(waits).scalar():
                time.sleep(0.01)
            connection.execute(change.where(table.c.about == CLARITY[1][0]))
        ledger.close()
        assert entries_of(store, run) == dict.fromkeys((CLARITY, BOTH), ONE + ONE)


def test_what_a_run_spent_before_it_had_a_budget_counts(any_url):
    with Store(any_url) as store:
        run = new_run(store)
        ledger = StoredLedger(store, run)
        ledger.record(CLARITY, ONE)
        assert not ledger.draw(Draw(usd=0.25, budget_usd=0.374))
        assert ledger.draw(Draw(usd=0.25, tokens=5, budget_usd=0.376))
        assert ledger.committed() == (0.375, 20)
        ledger.close()


_DRAWER = """
import sys
from trivium.metrics.judge.budget.ledger import Draw
from trivium.store.judge_ledger import StoredLedger
from trivium.store.store import Store
store = Store(sys.argv[1])
ledger = StoredLedger(store, store.run())
spent = 0
while True:
    ledger.draw(Draw(usd=1.0))
    spent += 1
    print(spent, flush=True)
"""


def test_a_kill_never_leaves_less_committed_than_was_spent(url):
    with Store(url) as store:
        run = new_run(store)
        process = subprocess.Popen([sys.executable, "-c", _DRAWER, url], stdout=subprocess.PIPE, text=True)
        lines = [process.stdout.readline() for _ in range(20)]
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        spent = int(rest[-1]) if rest else int(lines[-1])
        assert spent <= committed_of(store, run)[0] <= spent + 1


def test_what_is_recorded_while_the_program_ends_is_stored(url):
    code = (
        "import atexit, sys\n"
        "from tests.store.samples import new_run\n"
        "from tests.store.test_judge_ledger import CLARITY, ONE\n"
        "from trivium.store.judge_ledger import StoredLedger\n"
        "from trivium.store.store import Store\n"
        "store = Store(sys.argv[1])\n"
        "ledger = StoredLedger(store, new_run(store))\n"
        "atexit.register(ledger.close)\n"
        "for _ in range(3):\n"
        "    atexit.register(ledger.record, CLARITY, ONE)\n"
        "ledger.record(CLARITY, ONE)\n"
    )
    subprocess.run([sys.executable, "-c", code, url], check=True)
    with Store(url, read_only=True) as store:
        assert entries_of(store, store.run("r1"))[CLARITY].requests == 4 * ONE.requests


def test_a_failed_write_is_raised_by_the_next_write(url):
    with Store(url) as store:
        run = new_run(store)
        ledger = StoredLedger(store, run)
        ledger.draw(Draw(usd=1.0, tokens=1))
        with sqlite3.connect(store.engine.url.database) as connection:
            connection.execute("DROP TABLE spending")
        ledger.record(CLARITY, ONE)
        with pytest.raises(StoreError, match="spending"):
            ledger.draw(Draw(usd=1.0, tokens=1))
        with pytest.raises(StoreError, match="spending"):
            ledger.record(CLARITY, ONE)
        with pytest.raises(StoreError, match="spending"):
            ledger.close()
