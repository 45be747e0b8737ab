"""Rows: attempts and evaluations as the tables hold them, the records no longer needed."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, insert

from trivium.store.bodies import encode
from trivium.store.records import RunRecord, StoredAttempt, StoredEvaluation


class Rows(NamedTuple):
    """Attempts and evaluations of a run that are still to be written, and are then written together."""

    run: RunRecord
    attempts: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]

    @classmethod
    def of(cls, run: RunRecord) -> "Rows":
        """None yet of a run, owned by this process."""
        return cls(run, [], [])

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
        self.evaluations.append(
            {
                "run": self.run.number,
                "position": stored.position,
                "repeat": stored.evaluation.repeat,
                "composite": stored.evaluation.composite.value,
                "passed": stored.evaluation.passed,
                "body": encode(stored.evaluation),
            }
        )


def insert_many(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that have a value for every column, as the driver takes it.

    SQLAlchemy's own way looks at each value of each row, which takes longer than storing them.
    """
    if rows:
        statement = str(insert(table).compile(dialect=connection.dialect))
        connection.exec_driver_sql(statement, rows)
