"""Tests the response cache of judges."""

import sqlite3
import subprocess
import sys

import msgspec

from tests.store.samples import make_first_version, new_run
from trivium.metrics.judge.client.request import Alternative, ModelResponse, Token
from trivium.store.judge_cache import StoredResponseCache, cache_size, empty_cache
from trivium.store.store import Store

REPLY = ModelResponse(
    text='{"score": 4}',
    finish="stop",
    model="m-1",
    logprobs=[Token("4", -0.1234567890123, [Alternative(-1e-9)]), Token("5", 0.0, None, [195])],
    input_tokens=10,
    output_tokens=3,
    cost_usd=0.00001,
    cached_tokens=2,
)


def reply(text: str) -> ModelResponse:
    return msgspec.structs.replace(REPLY, text=text)


def test_a_response_comes_back_unchanged(any_url):
    with Store(any_url) as store:
        answers = StoredResponseCache(store, new_run(store), shared=True)
        answers.put("k", REPLY)
        answers.close()
    with Store(any_url) as store:
        other = StoredResponseCache(store, new_run(store, id="r2"), shared=True)
        assert other.fetch(["k", "unknown"]) == {"k": REPLY}
        other.close()


def test_a_response_is_available_as_soon_as_it_is_put(any_url):
    with Store(any_url) as store:
        answers = StoredResponseCache(store, new_run(store), shared=True)
        for i in range(1200):
            answers.put(f"k{i}", reply(str(i)))
            assert answers.fetch([f"k{i}"])[f"k{i}"].text == str(i)
        answers.close()
        assert len(answers.fetch([f"k{i}" for i in range(1200)])) == 1200


def test_unshared_responses_are_found_only_by_their_own_run(any_url):
    with Store(any_url) as store:
        first, second = (new_run(store, id=name) for name in ("r1", "r2"))
        for run, text in ((first, "one"), (second, "two")):
            own = StoredResponseCache(store, run, shared=False)
            own.put("k", reply(text))
            own.close()
        assert StoredResponseCache(store, first, shared=False).fetch(["k"])["k"].text == "one"
        assert StoredResponseCache(store, second, shared=False).fetch(["k"])["k"].text == "two"
        third = new_run(store, id="r3")
        assert StoredResponseCache(store, third, shared=False).fetch(["k"]) == {}
        assert StoredResponseCache(store, third, shared=True).fetch(["k"])["k"].text == "one", "the oldest"


def test_dropped_responses_are_gone_even_before_they_are_committed(any_url):
    with Store(any_url) as store:
        answers = StoredResponseCache(store, new_run(store), shared=True)
        answers.put("k", REPLY)
        answers.drop(["k"])
        answers.put("kept", REPLY)
        answers.close()
        assert answers.fetch(["k", "kept"]) == {"kept": REPLY}


def test_the_first_answer_under_a_key_stays(any_url):
    with Store(any_url) as store:
        run = new_run(store)
        for text in ("first", "second"):
            answers = StoredResponseCache(store, run, shared=True)
            answers.put("k", reply(text))
            answers.close()
        assert answers.fetch(["k"])["k"].text == "first"


def test_emptying_the_cache_spares_runs_in_progress(any_url):
    with Store(any_url) as store:
        done, going = (new_run(store, id=name) for name in ("r1", "r2"))
        for run in (done, going):
            answers = StoredResponseCache(store, run, shared=True)
            answers.put(run.id, REPLY)
            answers.close()
        store.finish(done, "done", summary={})
        assert cache_size(store).answers == 2
        empty_cache(store)
        assert answers.fetch(["r1", "r2"]) == {"r2": REPLY}
        size = cache_size(store)
        assert size.answers == 1
        assert 0 < size.bytes < 1000


def test_a_damaged_answer_is_forgotten(url, caplog):
    with Store(url) as store:
        answers = StoredResponseCache(store, new_run(store), shared=True)
        answers.put("k", REPLY)
        answers.close()
        with sqlite3.connect(store.engine.url.database) as connection:
            connection.execute("UPDATE answers SET body = x'00'")
        again = StoredResponseCache(store, new_run(store, id="r2"), shared=True)
        assert again.fetch(["k"]) == {}
        again.close()
        assert again.fetch(["k"]) == {}
    assert caplog.text.count("answer is damaged") == 1


_KEEPER = """
import sys
from tests.store.test_judge_cache import REPLY
from trivium.store.judge_cache import StoredResponseCache
from trivium.store.store import Store
with Store(sys.argv[1]) as store:
    answers = StoredResponseCache(store, store.run(sys.argv[2]), shared=True)
    for i in range(200):
        answers.put(f"{sys.argv[2]}-{i}", REPLY)
    answers.close()
"""


def test_several_processes_write_responses_concurrently(any_url):
    with Store(any_url) as store:
        names = ["r1", "r2"]
        for name in names:
            new_run(store, id=name)
        processes = [subprocess.Popen([sys.executable, "-c", _KEEPER, any_url, name]) for name in names]
        assert [process.wait() for process in processes] == [0, 0]
        assert cache_size(store).answers == 400


def test_a_store_of_the_first_version_is_brought_up_with_what_it_holds(tmp_path):
    file = tmp_path / "old.db"
    with Store(str(file)) as store:
        new_run(store)
    with sqlite3.connect(file) as connection:
        make_first_version(connection)
    with Store(str(file)) as store:
        run = store.run()
        answers = StoredResponseCache(store, run, shared=True)
        answers.put("k", REPLY)
        answers.close()
        assert run.id == "r1"
        assert answers.fetch(["k"]) == {"k": REPLY}
