"""Tests the size limit of the response cache and its eviction."""

import random
import time

import msgspec
import pytest
from sqlalchemy import select, text

from tests.store.samples import new_run
from tests.store.test_judge_cache import REPLY
from trivium.store import schema as tables
from trivium.store.judge_cache import StoredResponseCache, cache_size
from trivium.store.store import Store

RNG = random.Random(3)
REPLIES = [msgspec.structs.replace(REPLY, text=RNG.randbytes(2000).hex()) for _ in range(40)]
"""About 2 kB each, however they are packed."""


def put(store, run, keys, *, max_mb=None, over=True):
    answers = StoredResponseCache(store, run, shared=True, max_mb=max_mb)
    for key in keys:
        answers.put(key, REPLIES[int(key[1:])])
    if over:
        answers.allow_eviction()
    answers.close()


def finished(store, name, keys, **options):
    run = new_run(store, id=name)
    put(store, run, keys, **options)
    store.finish(run, "done", summary={})


def there(store):
    with store.engine.connect() as connection:
        return set(connection.execute(select(tables.answers.c.key)).scalars())


def aged(store, seconds, key):
    """Put it down that an answer was used so long ago."""
    with store.engine.begin() as connection:
        statement = text("UPDATE answers SET used = :used WHERE key = :key")
        connection.execute(statement, {"used": time.time() - seconds, "key": key})


def names(first, end):
    return [f"k{number}" for number in range(first, end)]


def test_the_size_is_that_of_the_bodies(any_url):
    with Store(any_url) as store:
        finished(store, "r1", names(0, 7))
        with store.engine.connect() as connection:
            lengths = [len(body) for body in connection.execute(select(tables.answers.c.body)).scalars()]
        size = cache_size(store)
        assert (size.answers, size.bytes) == (7, sum(lengths))
        assert abs(size.oldest - time.time()) < 600


def test_the_least_recently_used_are_evicted(any_url):
    with Store(any_url) as store:
        finished(store, "r1", names(0, 10))
        for number in range(10):
            aged(store, 10_000 * (10 - number), f"k{number}")
        aged(store, 5000, "k0")  # the oldest of all, but used since
        one = cache_size(store).bytes / 10
        finished(store, "r2", names(10, 12), max_mb=8 * one / 1e6)
        # 12 are there, and a tenth of the bound is made free: 7 stay.
        assert there(store) == {"k0", *names(6, 12)}
        assert cache_size(store).bytes <= 8 * one


def test_a_fetched_response_counts_as_used(any_url):
    with Store(any_url) as store:
        finished(store, "r1", names(0, 4))
        for number in range(4):
            aged(store, 100_000 + number, f"k{number}")
        run = new_run(store, id="r2")
        answers = StoredResponseCache(store, run, shared=True)
        assert set(answers.fetch(["k3", "k9"])) == {"k3"}
        answers.close()
        store.finish(run, "done", summary={})
        finished(store, "r3", [], max_mb=1.5 * cache_size(store).bytes / 4 / 1e6)
        assert there(store) == {"k3"}


def test_a_recent_use_is_not_recorded_again(url):
    with Store(url) as store:
        finished(store, "r1", names(0, 1))
        aged(store, 60, "k0")
        before = cache_size(store).oldest
        answers = StoredResponseCache(store, new_run(store, id="r2"), shared=True)
        answers.fetch(["k0"])
        answers.close()
        assert cache_size(store).oldest == before


def test_the_limit_holds_during_a_run_except_for_its_own_responses(url):
    with Store(url) as store:
        finished(store, "r1", names(0, 10))
        one = cache_size(store).bytes / 10
        running = new_run(store, id="r2")
        put(store, running, names(10, 40), max_mb=5 * one / 1e6, over=False)
        assert there(store) == set(names(10, 40))


def test_responses_of_other_runs_in_progress_stay(any_url):
    with Store(any_url) as store:
        put(store, new_run(store, id="going-on"), names(0, 5), over=False)
        finished(store, "r2", names(5, 10))
        finished(store, "r3", names(10, 12), max_mb=0)
        assert there(store) == set(names(0, 5))


@pytest.mark.parametrize("max_mb", [None, 500])
def test_below_the_limit_and_without_one_all_stay(url, max_mb):
    with Store(url) as store:
        finished(store, "r1", names(0, 20), max_mb=max_mb)
        assert len(there(store)) == 20
