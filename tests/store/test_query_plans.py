"""No query of a page reads a whole table that grows with attempts, on both databases."""

import json
from contextlib import contextmanager, suppress

import msgspec
import pytest
from sqlalchemy import event, text

import trivium as tv
from tests.reports.samples import summary
from tests.store.samples import attempt, evaluation
from trivium.errors import InputError
from trivium.labels.agreement import agreement_of
from trivium.labels.joining import labels_for
from trivium.labels.queue import LabelQueues
from trivium.runs.comparing.compare import compare
from trivium.store.browsing.attempts import attempts_of_case, count_attempts, find_attempts, position_of
from trivium.store.browsing.before import before
from trivium.store.browsing.runs import (
    RunFilters,
    find_runs,
    latest_pass_rates,
    suite_names,
    tag_names,
    version_names,
)
from trivium.store.browsing.search import search
from trivium.store.browsing.search_index import IDLE_SECONDS, SearchIndex
from trivium.store.export.tables import score_rows
from trivium.store.labels import answers_in, stored_labels
from trivium.store.live_alerts import alert_of
from trivium.store.live_samples import latest_samples
from trivium.store.store import Store
from trivium.store.tokens import Sessions
from trivium.suites.case import Case

RUNS, CASES = 6, 200
GROWING = (
    "attempts", "evaluations", "cases", "search_index", "labels", "label_tasks", "live_samples",
    "live_alerts", "sessions",
)  # fmt: skip


@pytest.fixture
def filled(any_url):
    with Store(any_url) as store:
        for suite in ("digest0", "digest1"):
            store.save_cases(suite, [Case(id=f"c{n}", input=f"question {n}") for n in range(CASES)])
        for number in range(RUNS):
            run = store.new_run(
                id=f"r{number}",
                suite_name="s",
                suite=f"digest{number % 2}",
                kind="agent",
                settings={},
            )
            attempts = [attempt(n, output=f"common word{n}") for n in range(CASES)]
            evaluations = [evaluation(n, value=n / CASES, passed=n % 3 > 0) for n in range(CASES)]
            store.save(run, attempts=attempts, evaluations=evaluations)
            store.finish(run, "done", summary=msgspec.to_builtins(summary()))
        index = SearchIndex(store)
        while index.step() != IDLE_SECONDS:
            pass
        if store.engine.dialect.name == "postgresql":  # it does so by itself after a while; SQLite never
            with store.engine.begin() as connection:
                connection.execute(text("ANALYZE"))
        yield store


@contextmanager
def queries(store):
    """Collects the queries that are sent meanwhile, with their values."""
    sent = []

    def collect(_connection, _cursor, statement, parameters, *_):
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            sent.append((statement, parameters))

    event.listen(store.engine, "before_cursor_execute", collect)
    try:
        yield sent
    finally:
        event.remove(store.engine, "before_cursor_execute", collect)


def plan(store, statement, parameters) -> list[str]:
    """How the database answers a query: what it reads, and how."""
    with store.engine.connect() as connection:
        if store.engine.dialect.name == "sqlite":
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            return [row[3] for row in rows]
        # A small table is read as a whole whatever there is to find its rows by, unless that is forbidden.
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        (explained,) = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).one()
        found = json.loads(explained) if isinstance(explained, str) else explained
        lines, waiting = [], [found[0]["Plan"]]
        while waiting:
            node = waiting.pop()
            reads = f" {node['Relation Name']}" if "Relation Name" in node else ""
            # An index that is read from end to end has no condition.
            whole = node["Node Type"].startswith("Index") and "Index Cond" not in node
            lines.append(f"{node['Node Type']}{reads}{' (whole)' if whole else ''}")
            waiting += node.get("Plans", [])
        return lines


def reads_whole(line: str) -> bool:
    """Whether a line of a plan says that a growing table is read as a whole."""
    words = line.split()
    if words[0] == "SCAN":  # SQLite; a search in a virtual table is called a scan with an index
        virtual = "VIRTUAL TABLE INDEX" in line and ":M" in line
        return words[1] in GROWING and not virtual
    return words[:2] == ["Seq", "Scan"] and words[2] in GROWING


def queue_of(store, run):
    """The queue of labels of a run."""
    queues = LabelQueues(store)
    return next(iter(queues.all(run=run.id)), None) or queues.create(run, "cosine", by="ann")


def used_labels(store, run) -> None:
    """The labels that the page of trust reads; there are none, or too few."""
    with suppress(InputError):
        labels_for(store, run, "cosine")


PAGES = {
    "list of runs": lambda store, run: find_runs(store),
    "runs by composite": lambda store, run: find_runs(store, RunFilters(suite="s"), sort="composite"),
    "runs of a text": lambda store, run: find_runs(store, RunFilters(text="r1")),
    "runs of a version and a tag": lambda store, run: find_runs(store, RunFilters(version="1", tag="x")),
    "names of versions": lambda store, run: version_names(store),
    "tags of cases": lambda store, run: tag_names(store),
    "answers against the runs before": lambda store, run: before(store, [run.id]),
    "pass rates of a suite": lambda store, run: latest_pass_rates(store, "s"),
    "names of suites": lambda store, run: suite_names(store),
    "attempts, worst first": find_attempts,
    "attempts, best first, next page": lambda store, run: find_attempts(
        store, run, sort="best", after=find_attempts(store, run, sort="best").next
    ),
    "attempts, next page": lambda store, run: find_attempts(store, run, after=find_attempts(store, run).next),
    "attempts by case, next page": lambda store, run: find_attempts(
        store, run, sort="case", after=find_attempts(store, run, sort="case").next
    ),
    "failed attempts of a text": lambda store, run: find_attempts(store, run, verdict="failed", text="c1"),
    "number of attempts": lambda store, run: count_attempts(store, run, verdict="failed"),
    "case of an id": lambda store, run: position_of(store, run, "c7"),
    "attempts of a case": lambda store, run: attempts_of_case(store, run, 7),
    "search": lambda store, run: search(store, "common word7 "),
    "search, next page": lambda store, run: search(store, "common", before=search(store, "common").next),
    "queue of labels": lambda store, run: answers_in(store, queue_of(store, run)),
    "next item to label": lambda store, run: LabelQueues(store).next(queue_of(store, run).id, "ann"),
    "samples, next page": lambda store, run: latest_samples(store, "support", 5, before=7),
    "alert": lambda store, run: alert_of(store, 7),
    "login": lambda store, run: Sessions(store).token_of("x", now=0.0),
    "search of a run": lambda store, run: search(store, '"common word7"', run=run),
    "latest samples": lambda store, run: latest_samples(store, "support", 5),
    "labels of a run": lambda store, run: list(stored_labels(store, run=run.id, dimension="cosine")),
    "labels for trust": used_labels,
    "people of a queue": lambda store, run: agreement_of(LabelQueues(store), queue_of(store, run).id),
    "verdicts": lambda store, run: list(store.verdicts(run)),
    "comparison": lambda store, run: compare(tv.Run(store, store.run("r1")), tv.Run(store, run)),
    "export of scores": lambda store, run: list(score_rows(store, run)),
}


def test_no_page_reads_a_growing_table_as_a_whole(filled):
    run = filled.run("r3")
    queue_of(filled, run)  # making it reads the run as a whole
    whole = {}
    for page, show in PAGES.items():
        with queries(filled) as sent:
            show(filled, run)
        assert sent, page
        lines = [(line, statement) for statement, values in sent for line in plan(filled, statement, values)]
        if found := [each for each in lines if reads_whole(each[0])]:
            whole[page] = found
    assert not whole


def test_a_page_of_the_worst_attempts_sorts_nothing(filled):
    """Otherwise the first page of a run of a million attempts would read them all."""
    run = filled.run("r3")
    with queries(filled) as sent:
        page = find_attempts(filled, run)
        find_attempts(filled, run, after=page.next)
        find_attempts(filled, run, sort="best", verdict="passed")
    lists = [each for each in sent if "ORDER BY evaluations.composite" in each[0]]
    assert lists
    plans = [line for each in lists for line in plan(filled, *each)]
    assert not [line for line in plans if line == "Sort" or "TEMP B-TREE FOR ORDER BY" in line]


def test_the_latest_samples_are_found_without_sorting_all(filled):
    """A monitor may have millions."""
    with queries(filled) as sent:
        latest_samples(filled, "support", 5)
        latest_samples(filled, "support", 5, before=7)
    plans = [line for each in sent for line in plan(filled, *each)]
    assert not [line for line in plans if line == "Sort" or "TEMP B-TREE FOR ORDER BY" in line]


def test_the_check_sees_a_table_that_is_read_as_a_whole(filled):
    for query in ("SELECT count(*) FROM evaluations WHERE body = 'x'", "SELECT body FROM attempts"):
        assert any(reads_whole(line) for line in plan(filled, query, ()))


def test_the_verdicts_of_a_run_are_counted_by_case(filled):
    found = {case: counts for case, *counts in filled.verdicts(filled.run("r2"))}
    assert found == {f"c{n}": [1, int(n % 3 > 0)] for n in range(CASES)}
