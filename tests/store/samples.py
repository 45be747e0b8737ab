"""Sample runs for store tests."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, create_engine

from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Composite, Evaluation
from trivium.metrics.metric import Score
from trivium.store.records import RunKind, RunRecord, StoredAttempt, StoredEvaluation
from trivium.store.store import Store
from trivium.suites.case import Case


def cases(count: int) -> list[Case]:
    return [Case(id=f"c{i}", input=f"question {i}", references=(f"answer {i}",)) for i in range(count)]


def new_run(store: Store, *, id: str = "r1", count: int = 3, kind: RunKind = "agent", **fields) -> RunRecord:
    store.save_cases("digest", cases(count))
    return store.new_run(id=id, suite_name="s", suite="digest", kind=kind, settings={}, due=count, **fields)


def attempt(position: int, *, repeat: int = 0, output: object = "answer", **fields) -> StoredAttempt:
    made = Attempt(case=f"c{position}", repeat=repeat, output=output, **fields)
    return StoredAttempt(position=position, attempt=made)


def evaluation(
    position: int, *, repeat: int = 0, value: float | None = 0.5, passed: bool | None = True
) -> StoredEvaluation:
    score = Score(
        name="cosine", tier="text", value=value, raw=[value], status="skipped" if value is None else "ok"
    )
    made = Evaluation(
        case=f"c{position}",
        repeat=repeat,
        scores={"cosine": score},
        composite=Composite(
            value=value, parts={} if value is None else {"cosine": value}, recommendation="reject"
        ),
        passed=passed,
    )
    return StoredEvaluation(position=position, evaluation=made)


FIRST_TABLES = ("runs", "cases", "attempts", "evaluations", "case_scores", "alembic_version")


def make_first_version(connection: sqlite3.Connection) -> None:
    """Make a store of the newest schema one of the first, with what it holds."""
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    for (table,) in tables.fetchall():
        if table not in FIRST_TABLES:
            connection.execute(f"DROP TABLE {table}")
    indexes = (
        "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND name != 'ix_runs_suite'"
    )
    for (index,) in connection.execute(indexes).fetchall():
        connection.execute(f"DROP INDEX {index}")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
    for column in columns[columns.index("summary") + 1 :]:
        connection.execute(f"ALTER TABLE runs DROP COLUMN {column}")
    connection.execute("UPDATE alembic_version SET version_num = '0001'")


@contextmanager
def older_store(url: str, revision: str) -> Iterator[Connection]:
    """Make an empty store as the Trivium of that schema did, and give a connection to fill it with."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    made = (Path(__file__).parent / "revisions" / f"{engine.dialect.name}.sql").read_text()
    statements = made.partition(f"-- {int(revision) + 1:04}\n")[0].split(";\n")
    with engine.begin() as connection:
        for statement in statements[:-1]:
            connection.exec_driver_sql(statement)
        yield connection
    engine.dispose()
