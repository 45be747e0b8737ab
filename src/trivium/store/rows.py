"""Rows: attempts and evaluations as the tables hold them, the records no longer needed."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Table, insert

from trivium.store.bodies import encode
from trivium.store.records import RunRecord, StoredAttempt, StoredEvaluation


class Rows:
    """Attempts and evaluations that are still to be written, and are then written together.

    Args:
        run: Whose they are, owned by this process.

    Attributes:
        attempts: Rows of the table of attempts.
        evaluations: Rows of the table of evaluations.
        failed: Evaluations of attempts that failed.
    """

    def __init__(self, run: RunRecord) -> None:
        self.run = run
        self.attempts: list[dict[str, Any]] = []
        self.evaluations: list[dict[str, Any]] = []
        self.failed = 0

    def add_attempt(self, stored: StoredAttempt, *, own_case: bool = False) -> None:
        """Add a new attempt.

        Args:
            stored: The attempt.
            own_case: Keep its case too, because it is not as the suite has it.
        """
        self.attempts.append(
            {
                "run": self.run.number,
                "position": stored.position,
                "repeat": stored.attempt.repeat,
                "case_body": encode(stored.case) if own_case else None,
                "body": encode(stored.attempt),
            }
        )

    def add_evaluation(self, stored: StoredEvaluation) -> None:
        """Add a new evaluation."""
        made = stored.evaluation
        self.failed += made.failed is not None
        self.evaluations.append(
            {
                "run": self.run.number,
                "position": stored.position,
                "repeat": made.repeat,
                "composite": made.composite.value,
                "passed": made.passed,
                "body": encode(made),
            }
        )


def insert_many(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that have a value for every column, as the driver takes it.

    SQLAlchemy's own way looks at each value of each row, which takes longer than storing them.
    """
    if rows:
        connection.exec_driver_sql(_insert_into(table, connection.dialect), rows)


@lru_cache
def _insert_into(table: Table, dialect: Dialect) -> str:
    return str(insert(table).compile(dialect=dialect))
