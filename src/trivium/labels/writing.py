"""Writes labels, once each, with their entries in the audit log."""

from hashlib import blake2b
from typing import Any

from sqlalchemy import Connection, insert, select

from trivium.errors import InputError
from trivium.labels.reading import label_of
from trivium.labels.records import LONGEST_NAME, LONGEST_NOTE, StoredLabel
from trivium.store import schema
from trivium.store.audit import add_audit
from trivium.suites.sanitize import sanitise

__all__ = ["checked_name", "insert_label", "key_of", "label_with_key", "noted"]


def insert_label(connection: Connection, *, actor: str | None = None, **values: Any) -> StoredLabel:
    """Store a label, with an entry in the audit log.

    Args:
        connection: In a transaction.
        actor: Who stores it, if that is not the person whose label it is.
        values: The columns.
    """
    labels = schema.labels
    number = connection.execute(insert(labels).values(values).returning(labels.c.number)).scalar_one()
    about = {name: values[name] for name in ("run", "case", "repeat", "dimension", "answer", "value", "how")}
    if actor is not None:
        about["by"] = values["by"]
    add_audit(connection, actor or values["by"], "label given", {"label": number, **about}, now=values["at"])
    return StoredLabel(number=number, undone=None, **values)


def label_with_key(connection: Connection, digest: str) -> StoredLabel | None:
    """Return the label that was stored with this key, or None."""
    row = connection.execute(select(schema.labels).where(schema.labels.c.key == digest)).first()
    return None if row is None else label_of(row)


def checked_name(by: str) -> str:
    """Return a person's name without what a store cannot hold.

    Raises:
        InputError: If it is empty or too long.
    """
    name = str(sanitise(by)[0]).strip()
    if not name or len(name) > LONGEST_NAME:
        raise InputError("the labeller's name", f"expected 1 to {LONGEST_NAME} characters, found {len(name)}")
    return name


def noted(note: str | None) -> str | None:
    """Return a note without what a store cannot hold, cut to its longest; None if it is empty."""
    return None if note is None else str(sanitise(note)[0]).strip()[:LONGEST_NOTE] or None


def key_of(*parts: str) -> str:
    """Return the key of a label: nobody can use the one of another person or queue."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=24).hexdigest()
