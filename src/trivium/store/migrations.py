"""Gives a store that an older Trivium wrote the newest schema.

Each schema has what the one before had, and more. So what a store lacks is added as :mod:`.schema` has it,
and then filled from what is stored. A schema that renames or drops something gets a step of its own here.
"""

from collections.abc import Callable

import msgspec
from sqlalchemy import Connection, MetaData, bindparam, func, inspect, select, text, update
from sqlalchemy.schema import CreateColumn

from trivium.store import schema
from trivium.store.records import NAME_CHARS, Provenance, RunNames, T, figures_of
from trivium.values import JsonObject, resolved

NEWEST = "0013"
"""Schema that this version of Trivium writes. A change of :mod:`.schema` raises it."""

REVISIONS = tuple(f"{number:04}" for number in range(1, int(NEWEST) + 1))
"""Schemas that this version can read or migrate."""

_STREAMED = {"yield_per": 500}


def upgrade(connection: Connection, version: str) -> None:
    """Migrate a store from one of :data:`REVISIONS` to the newest, in the transaction of the connection."""
    _add_what_is_missing(connection)
    for revision, fill in _FILLED:
        if version < revision:
            fill(connection)
    connection.execute(text("UPDATE alembic_version SET version_num = :newest"), {"newest": NEWEST})


def _add_what_is_missing(connection: Connection) -> None:
    before = inspect(connection)
    older = before.get_table_names()
    for table in schema.metadata.sorted_tables:
        if table.name not in older:
            table.create(connection)  # fails where a view has its name: reading that might never end
            continue
        columns = {column["name"] for column in before.get_columns(table.name)}
        for column in table.columns:
            if column.name not in columns:
                definition = CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {definition}")
        indexes = {index["name"] for index in before.get_indexes(table.name)}
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            if index.name not in indexes:
                index.create(connection)


def _date_answers(connection: Connection) -> None:
    """The last use of a judge's response is its creation."""
    answers = schema.answers
    values = {"used": answers.c.created, "size": func.length(answers.c.body)}
    connection.execute(update(answers).values(values))


def _take_grants_from_labels(connection: Connection) -> None:
    """Only what people have in hand or answered was kept, so they are taken as asked for that."""
    connection.execute(
        text(
            """
            INSERT INTO label_grants (queue, place, "by", given, until)
            SELECT queue, place, "by", MIN(given), MAX(until) FROM (
                SELECT queue, place, "by", at AS given, at AS until FROM labels
                WHERE queue IS NOT NULL AND place IS NOT NULL AND how <> 'adjudicated' AND "by" <> '(nobody)'
                UNION ALL
                SELECT queue, place, "by", until AS given, until FROM label_leases
            ) AS known GROUP BY queue, place, "by"
            """
        )
    )


def _describe_runs(connection: Connection) -> None:
    """Fill what lists of runs show."""
    runs = schema.runs
    stored = select(runs.c.number, runs.c.provenance, runs.c.summary)
    described = [
        {
            "described": number,
            **_read(_figures, summary, figures_of({})),
            **msgspec.structs.asdict(RunNames.of(_read(_provenance, provenance, Provenance()))),
        }
        for number, provenance, summary in connection.execute(stored, execution_options=_STREAMED)
    ]
    if described:
        connection.execute(update(runs).where(runs.c.number == bindparam("described")), described)


def _collect_tags(connection: Connection) -> None:
    cases = schema.cases
    stored = select(cases.c.suite, cases.c.body)
    found: set[tuple[str, str]] = set()
    for suite, body in connection.execute(stored, execution_options=_STREAMED):
        found.update((tag[:NAME_CHARS], suite) for tag in _read(_tagged, body, _Tagged()).tags)
    if found:
        rows = [{"tag": tag, "suite": suite} for tag, suite in sorted(found)]
        connection.execute(schema.suite_tags.insert(), rows)


def _make_samples_anew(connection: Connection) -> None:
    """Let SQLite remember the numbers of deleted samples, which only a table that is made so does."""
    if connection.dialect.name != "sqlite":
        return
    table = schema.live_samples
    for index in table.indexes:
        index.drop(connection)
    connection.exec_driver_sql(f"ALTER TABLE {table.name} RENAME TO former_samples")
    table.create(connection)
    former = table.to_metadata(MetaData(), name="former_samples")
    connection.execute(table.insert().from_select(former.columns.keys(), select(former)))
    connection.exec_driver_sql("DROP TABLE former_samples")


_FILLED: tuple[tuple[str, Callable[[Connection], None]], ...] = (
    ("0003", _date_answers),
    ("0009", _take_grants_from_labels),
    ("0010", _describe_runs),
    ("0010", _collect_tags),
    ("0013", _make_samples_anew),
)
"""What stores older than a schema lack, beside tables, columns and indexes."""


@resolved
class _Tagged(msgspec.Struct):
    tags: tuple[str, ...] = ()


_provenance = msgspec.json.Decoder(Provenance).decode
_summary = msgspec.json.Decoder(JsonObject).decode
_tagged = msgspec.json.Decoder(_Tagged).decode


def _figures(summary: str) -> dict[str, int | float | None]:
    """The figures of a summary.

    Raises:
        AttributeError, TypeError, ValueError: If it is damaged, as those of :mod:`msgspec`.
    """
    return msgspec.convert(figures_of(_summary(summary)), dict[str, int | float | None])


def _read(decode: Callable[[str], T], body: str | None, nothing: T) -> T:
    """What a body holds; nothing if it is missing or damaged."""
    try:
        return nothing if body is None else decode(body)
    except (msgspec.MsgspecError, AttributeError, TypeError, ValueError, RecursionError):
        return nothing
