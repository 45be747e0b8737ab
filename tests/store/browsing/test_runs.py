"""Lists of runs, on both databases."""

from sqlalchemy import create_engine, text

from trivium.store.browsing.runs import find_runs, suite_names
from trivium.store.connection import upgrade
from trivium.store.store import Store


def test_runs_come_in_pages_of_which_none_is_lost(any_url):
    with Store(any_url) as store:
        for number in range(7):
            store.new_run(
                id=f"r{number}",
                suite_name=f"s{number % 2}",
                suite="s",
                kind="agent",
                settings={},
                provenance={},
            )
        found, start = [], 0
        while start is not None:
            page = find_runs(store, sort="pass_rate", start=start, limit=3)
            assert page.total == 7
            found += [run.run for run in page.runs]
            start = page.next
        assert sorted(found) == [f"r{number}" for number in range(7)]
        assert [run.run for run in find_runs(store, text="R3").runs] == ["r3"]
        assert suite_names(store) == ["s0", "s1"]


def test_the_migration_fills_in_the_figures_of_older_runs(tmp_path, monkeypatch):
    engine = create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    with monkeypatch.context() as older, engine.begin() as connection:
        older.setattr("trivium.store.connection.NEWEST", "0004")
        upgrade(connection)
        connection.execute(
            text(
                "INSERT INTO runs (number, id, suite_name, suite, kind, state, created, touched, settings, "
                "provenance, summary) VALUES "
                "(1, 'a', 's', 's', 'agent', 'done', 0, 0, '{}', '{}', :summary), "
                "(2, 'b', 's', 's', 'agent', 'running', 0, 0, '{}', '{}', NULL)"
            ),
            {"summary": '{"attempts": 3, "pass_rate": {"value": 0.5}, "composite": null}'},
        )
    engine.dispose()
    with Store(f"sqlite:///{tmp_path / 'old.db'}") as store:
        found = find_runs(store, sort="oldest").runs
    assert [(run.attempts, run.pass_rate, run.composite) for run in found] == [
        (3, 0.5, None),
        (None, None, None),
    ]


def test_a_filter_may_hold_what_a_database_cannot(any_url):
    with Store(any_url) as store:
        assert find_runs(store, suite="a\0b", text="\0").total == 0
