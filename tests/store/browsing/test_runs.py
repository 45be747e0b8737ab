"""Lists of runs, on both databases."""

from sqlalchemy import text

from tests.store.samples import older_store
from trivium.store.browsing.runs import (
    RunFilters,
    find_runs,
    latest_pass_rates,
    suite_names,
    tag_names,
    version_names,
)
from trivium.store.records import Commit, Provenance
from trivium.store.store import Store
from trivium.suites.case import Case


def test_runs_come_in_pages_of_which_none_is_lost(any_url):
    with Store(any_url) as store:
        for number in range(7):
            store.new_run(
                id=f"r{number}",
                suite_name=f"s{number % 2}",
                suite="s",
                kind="agent",
                settings={},
            )
        found, start = [], 0
        while start is not None:
            page = find_runs(store, sort="pass_rate", start=start, limit=3)
            assert page.total == 7
            found += [run.run for run in page.runs]
            start = page.next
        assert sorted(found) == [f"r{number}" for number in range(7)]
        assert [run.run for run in find_runs(store, RunFilters(text="R3")).runs] == ["r3"]
        assert suite_names(store) == ["s0", "s1"]


def test_the_migrations_fill_in_what_lists_show_of_older_runs(any_url):
    with older_store(any_url, "0004") as connection:
        connection.execute(
            text(
                "INSERT INTO runs (number, id, suite_name, suite, kind, state, created, touched, settings, "
                "provenance, summary) VALUES "
                "(1, 'a', 's', 's', 'agent', 'done', 0, 0, '{}', :provenance, :summary), "
                "(2, 'b', 's', 's', 'agent', 'running', 0, 0, '{}', '{}', NULL)"
            ),
            {
                "summary": '{"attempts": 3, "pass_rate": {"value": 0.5, "ci95": [0.1, 0.9]}}',
                "provenance": '{"agent": "qa:answer", "version": "v1", "git": {"commit": "0123456789a"}}',
            },
        )
        connection.execute(
            text("INSERT INTO cases (suite, position, id, body) VALUES (:suite, 0, 'a', :body)"),
            [{"suite": "s", "body": '{"tags": ["x", "y"]}'}, {"suite": "t", "body": '{"id": "b"}'}],
        )
    with Store(any_url) as store:
        first, second = find_runs(store, sort="oldest").runs
        assert [run.run for run in find_runs(store, RunFilters(tag="y")).runs] == ["b", "a"]
        assert tag_names(store) == ["x", "y"]
    assert (first.attempts, first.pass_rate, first.composite) == (3, 0.5, None)
    assert (first.pass_rate_low, first.pass_rate_high) == (0.1, 0.9)
    assert (first.agent, first.version, first.git_commit) == ("qa:answer", "v1", "012345678")
    assert (second.attempts, second.pass_rate, second.composite, second.agent) == (None, None, None, None)


def test_a_filter_may_hold_what_a_database_cannot(any_url):
    with Store(any_url) as store:
        assert find_runs(store, RunFilters(suite="a\0b", version="\0", tag="\0", text="\0")).total == 0


def test_runs_are_found_by_what_they_are_called_and_by_tags_of_their_cases(any_url):
    commit = Commit(commit="0123456789abcdef", dirty=True, subject="Ask for the year, too")
    with Store(any_url) as store:
        store.save_cases("s1", [Case(id="a", input="?", tags=("hard", "dates")), Case(id="b", input="?")])
        for number, (suite, provenance) in enumerate(
            [
                ("s0", Provenance(agent="qa.agents:answer", version="1.4")),
                ("s1", Provenance(agent="qa.agents:answer", git=commit)),
                ("s1", Provenance()),
            ]
        ):
            store.new_run(
                id=f"r{number}", suite_name=f"suite {suite}", suite=suite, kind="agent", settings={},
                provenance=provenance,
            )  # fmt: skip

        def found(**filters):
            return [run.run for run in find_runs(store, RunFilters(**filters), sort="oldest").runs]

        assert found(version="1.4") == ["r0"]
        assert found(version="012345678") == found(version="012345678+") == found(text="THE YEAR") == ["r1"]
        assert found(text="agents:") == ["r0", "r1"]
        assert found(tag="hard") == ["r1", "r2"]
        assert found(tag="hard", version="1.4") == found(tag="har") == []
        assert (version_names(store), tag_names(store)) == (["1.4"], ["dates", "hard"])


def test_a_run_whose_provenance_changes_is_called_by_the_new_one(any_url):
    with Store(any_url) as store:
        run = store.new_run(
            id="r", suite_name="s", suite="s", kind="agent", settings={}, provenance=Provenance(agent="a")
        )
        store.set_provenance(run, Provenance(agent="b", version="2"))
        (listed,) = find_runs(store).runs
    assert (listed.agent, listed.version) == ("b", "2")


def test_the_newest_pass_rates_of_a_suite_come_oldest_first(any_url):
    with Store(any_url) as store:
        for number, (suite, state) in enumerate([("s", "done")] * 3 + [("t", "done"), ("s", "interrupted")]):
            run = store.new_run(id=f"r{number}", suite_name=suite, suite=suite, kind="agent", settings={})
            rate = {"value": number / 10, "ci95": [0.0, 0.5]}
            store.finish(run, state, summary={"attempts": 4, "pass_rate": rate})
        found = latest_pass_rates(store, "s", limit=2)
    assert [(run.run, run.pass_rate, run.pass_rate_high) for run in found] == [
        ("r1", 0.1, 0.5), ("r2", 0.2, 0.5),
    ]  # fmt: skip
