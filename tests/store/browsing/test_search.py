"""A search over the attempts of a store, on both databases."""

import pytest
from sqlalchemy import delete

from tests.store.samples import attempt, evaluation
from trivium.metrics.metric import Score
from trivium.store import schema
from trivium.store.backup import back_up
from trivium.store.browsing import search as searching
from trivium.store.browsing import search_index
from trivium.store.browsing.documents import key_of, number_of
from trivium.store.browsing.search import COUNTED, search
from trivium.store.browsing.search_index import IDLE_SECONDS, SearchIndex, index_progress
from trivium.store.records import StoredEvaluation
from trivium.store.store import Store
from trivium.suites.case import Case

TEXTS = (
    "我的数据库坏了",
    "مُحَمَّدٌ كَتَبَ الرسالة",
    "Deploy finished 🚀👍🏽",
    "Привет, МИР!",
    "Die Straße ist gesperrt",
    "the order_id was not found",
    'a "quoted" AND (NEAR) col:x* OR NOT -y',
    "broken \ufffd and ␀ text",
)


def stored(store, outputs, *, id="r1", kind="agent", reasons=(), finish=True, **fields):
    store.save_cases(id, [Case(id=f"case-{n}", input=f"Question {n}?") for n in range(len(outputs))])
    run = store.new_run(id=id, suite_name="s", suite=id, kind=kind, settings={}, due=len(outputs), **fields)
    evaluations = []
    for place, reason in enumerate(reasons):
        score = Score(name="judge", tier="judge", value=0.5, detail={"reason": reason})
        made = evaluation(place).evaluation
        made = type(made)(case=f"case-{place}", repeat=0, scores={"judge": score}, composite=made.composite)
        evaluations.append(StoredEvaluation(position=place, evaluation=made))
    attempts = [] if "attempts_from" in fields else [attempt(n, output=o) for n, o in enumerate(outputs)]
    store.save(run, attempts=attempts, evaluations=evaluations)
    if finish:
        store.finish(run, "done", summary={"attempts": len(outputs)})
    return store.run(id)


def fill(store, **options):
    index = SearchIndex(store, **options)
    steps = 0
    while index.step() != IDLE_SECONDS:
        steps += 1
    return steps


def cases(store, query, **options):
    return [hit.case for hit in search(store, query, **options).hits]


@pytest.fixture
def filled(any_url):
    with Store(any_url) as store:
        stored(store, TEXTS)
        fill(store)
        yield store


FOUND = {
    "数据": [0],
    "据我": [],
    "库": [0],
    "محمد": [1],
    "🚀": [2],
    "👍": [2],
    "привет мир": [3],
    "STRASSE": [4],
    "stras": [4],
    "stras ": [],
    "order_id": [5],
    '"not found"': [5],
    '"found not"': [],
    "found not": [5],
    "AND OR NOT NEAR": [6],
    "col:x*": [6],
    "-y": [6],
    "case-3": [3],
    "question 7": [7],
    '"': [],
    "!?… --": [],
    "": [],
    "\0": [7],  # where one was
    "\ud800": [],
    "found' | 'x": [],
    "a" * 10_000: [],
    "wort " * 2_000: [],
}


def test_texts_are_found_and_nothing_in_a_query_is_an_operator(filled):
    found = {query: cases(filled, query) for query in FOUND}
    assert found == {query: [f"case-{number}" for number in numbers] for query, numbers in FOUND.items()}


def test_an_excerpt_marks_what_was_looked_for(filled):
    (hit,) = search(filled, "كتب").hits
    (excerpt,) = hit.excerpts
    assert [(piece.text, piece.marked) for piece in excerpt.pieces] == [
        ("مُحَمَّدٌ ", False),
        ("كَتَبَ", True),
        (" الرسالة", False),
    ]
    (hit,) = search(filled, "strasse").hits
    assert [piece.text for piece in hit.excerpts[0].pieces if piece.marked] == ["Straße"]


def test_a_long_text_is_cut_around_the_place(any_url):
    with Store(any_url) as store:
        stored(store, ["left " * 500 + "needle" + " right" * 500])
        fill(store)
        (excerpt,) = search(store, "needle").hits[0].excerpts
        text = "".join(piece.text for piece in excerpt.pieces)
        assert text.startswith("…")
        assert text.endswith("…")
        assert len(text) < 300


def test_reasons_of_judges_are_found_also_of_a_later_scoring(any_url):
    with Store(any_url) as store:
        first = stored(store, ["output"], reasons=["cites nothing"])
        store.save_cases("r1", [])
        again = store.new_run(id="r2", suite_name="s", suite="r1", kind="agent", settings={}, attempts_from=1)
        score = Score(name="judge", tier="judge", value=0.5, detail={"claims": [{"reasoning": "wrong year"}]})
        made = evaluation(0).evaluation
        made = type(made)(case="case-0", repeat=0, scores={"j": score}, composite=made.composite)
        store.save(again, evaluations=[StoredEvaluation(position=0, evaluation=made)])
        store.finish(again, "done", summary=None)
        fill(store)
        assert [hit.run for hit in search(store, "cites").hits] == [first.id]
        assert [hit.run for hit in search(store, "year").hits] == ["r2"]
        assert search(store, "year").hits[0].excerpts[0].field == "reason"


@pytest.mark.parametrize("newest", [2, 16_000])
def test_pages_show_everything_once_newest_runs_first(any_url, monkeypatch, newest):
    """Whether all that were found are known, or there are more and the index is asked for the next."""
    monkeypatch.setattr(searching, "NEWEST", newest)
    with Store(any_url) as store:
        for number in range(3):
            stored(store, ["same words here"] * 5, id=f"r{number}")
        fill(store)
        for query, counted in (("same", 15), ('"same words"', 15), ("same", 14), ('"same words"', 14)):
            monkeypatch.setattr(searching, "COUNTED", counted)
            found, before = [], None
            while True:
                page = search(store, query, before=before, limit=4)
                found += [(hit.run, hit.case) for hit in page.hits]
                assert (page.total, page.more) == (counted, counted < 15)
                before = page.next
                if before is None:
                    break
            assert found == [(f"r{run}", f"case-{n}") for run in (2, 1, 0) for n in range(5)]
        assert {hit.run for hit in search(store, "same", run=store.run("r1")).hits} == {"r1"}


def test_a_search_reads_no_more_than_its_bound(any_url, monkeypatch):
    monkeypatch.setattr(searching, "MOST_READ", 40)
    with Store(any_url) as store:
        stored(store, ["one two"] * 90 + ["two one"])
        fill(store)
        first = search(store, '"two one"')
        assert not first.hits
        assert first.phrases
        pages = [first]
        while pages[-1].next is not None:
            pages.append(search(store, '"two one"', before=pages[-1].next))
        assert [hit.case for page in pages for hit in page.hits] == ["case-90"]


def test_counts_are_bounded_and_say_so(any_url, monkeypatch):
    monkeypatch.setattr(searching, "COUNTED", 3)
    with Store(any_url) as store:
        stored(store, ["word"] * 5)
        fill(store)
        found = search(store, "word")
        assert (found.total, found.more) == (3, True)
    assert COUNTED == 50


def test_a_run_that_is_gone_leaves_the_index(filled):
    with filled.engine.begin() as connection:
        for table in (schema.runs, schema.attempts):
            connection.execute(delete(table))
    assert cases(filled, "🚀") == []
    fill(filled)
    assert search(filled, "🚀").total == 0
    assert index_progress(filled).attempts == 0


def test_a_run_that_is_written_again_is_indexed_again(filled):
    run = filled.run("r1")
    filled.save(run, attempts=[attempt(0, repeat=1, output="a second try")])
    fill(filled, clock=lambda: 1e12)
    assert [hit.repeat for hit in search(filled, "second").hits] == [1]
    assert search(filled, "🚀").total == 1


def test_a_run_is_indexed_once_nobody_writes_it(any_url):
    with Store(any_url) as store:
        stored(store, ["unfinished"], finish=False)
        fill(store)
        assert cases(store, "unfinished") == []
        assert index_progress(store) == search(store, "unfinished").progress
        assert not index_progress(store).complete
        fill(store, clock=lambda: 1e12)
        assert cases(store, "unfinished") == ["case-0"]


def test_production_is_indexed_while_it_is_written_newest_first(any_url):
    with Store(any_url) as store:
        run = stored(store, ["early sample", "later sample"], kind="live", finish=False)
        fill(store)
        store.save(run, attempts=[attempt(1, repeat=1, output="latest sample")])
        fill(store)
        assert [(h.case, h.repeat) for h in search(store, "sample").hits] == [
            ("case-1", 1),
            ("case-1", 0),
            ("case-0", 0),
        ]


def test_filling_is_resumed_and_two_servers_index_nothing_twice(any_url, monkeypatch):
    monkeypatch.setattr(search_index, "ROWS_AT_ONCE", 2)
    with Store(any_url) as store, Store(any_url) as other:
        stored(store, ["word"] * 5)
        first, second = SearchIndex(store), SearchIndex(other)
        first.step()
        assert index_progress(store).indexed == 2
        second.step()
        first.step()
        assert index_progress(store).indexed == 5
        assert search(store, "word").total == 5


def test_a_second_server_that_read_the_same_attempts_writes_nothing(any_url):
    with Store(any_url) as store:
        stored(store, ["word"])
        index = SearchIndex(store)
        index._make_index()
        with store.engine.connect() as connection:
            run = index._next_run(connection)
        index.step()
        with store.engine.begin() as connection:
            assert not index._advance(connection, run, {"documents": 9})


def test_who_writes_a_run_is_left_most_of_the_time(any_url):
    with Store(any_url) as store:
        stored(store, ["word"])
        ticks = iter(range(100))
        assert SearchIndex(store, timer=lambda: next(ticks)).step() == 3.0
        stored(store, ["word"], id="r2")
        stored(store, ["other"], id="r3", finish=False)
        assert SearchIndex(store, timer=lambda: next(ticks)).step() == 9.0


def test_without_an_index_nothing_is_found_and_the_progress_says_why(any_url):
    with Store(any_url) as store:
        stored(store, ["word"])
        found = search(store, "word")
        assert (found.hits, found.progress.indexed, found.progress.attempts) == ((), 0, 1)
        assert not search(store, "?!").words


def test_a_store_that_may_only_be_read_is_not_indexed(url):
    with Store(url) as store:
        stored(store, ["word"])
    with Store(url, read_only=True) as store:
        assert SearchIndex(store).step() == IDLE_SECONDS


@pytest.mark.parametrize("kind", ["agent", "live"])
def test_a_number_gives_its_attempt_back(kind):
    for key in [(1, 0, 0), (7, 123_456, 3), (1_000_000, 2**28 - 1, 2**13 - 1)]:
        assert key_of(number_of(*key, kind=kind), kind=kind) == key
    assert number_of(4_000_000, 2**40, 2**40, kind=kind) < 2**63


def test_a_restored_store_is_indexed_anew(filled, tmp_path):
    file = tmp_path / "backup.db"
    back_up(filled.url, file)
    with Store(f"sqlite:///{file}") as restored:
        assert index_progress(restored).indexed == 0
        fill(restored)
        assert cases(restored, "🚀") == ["case-2"]
