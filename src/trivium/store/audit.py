"""The audit log: who changed tokens and marks, who tried a wrong token, and how alerts changed."""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from trivium.store import schema
from trivium.store.connection import explain_errors, fetched
from trivium.store.store import Store
from trivium.values import json_text


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the audit log.

    Attributes:
        number: Rises with every entry.
        time: Unix time.
        actor: Who did it: a token, a user of this machine, an address, or a monitor.
        action: What they did, such as ``token created``.
        body: Further facts.
    """

    number: int
    time: float
    actor: str
    action: str
    body: dict[str, Any]


def add_audit(
    connection: Connection, actor: str, action: str, body: Mapping[str, Any], *, now: float
) -> None:
    """Add an entry, in the transaction of the action that it records."""
    connection.execute(
        schema.audit.insert().values(time=now, actor=actor[:200], action=action, body=json_text(body))
    )


def audit(store: Store, actor: str, action: str, body: Mapping[str, Any], *, now: float) -> None:
    """Add an entry in a transaction of its own."""
    with explain_errors(store.engine), store.engine.begin() as connection:
        add_audit(connection, actor, action, body, now=now)


def audit_log(store: Store, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
    """Entries, newest first.

    Args:
        store: The store.
        before: Number of an entry: only older ones.
        limit: Most entries.
    """
    table = schema.audit
    query = select(table).order_by(table.c.number.desc()).limit(limit)
    if before is not None:
        query = query.where(table.c.number < before)
    rows = fetched(store.engine, query).mappings().all()
    return [AuditEntry(**dict(row) | {"body": msgspec.json.decode(row["body"])}) for row in rows]
