"""Tokens of the server's interfaces, and sessions of browsers: the store has only their hashes."""

import hmac
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Literal, get_args

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update

from trivium.errors import InputError, suggest
from trivium.store import schema
from trivium.store.audit import add_audit
from trivium.store.connection import explain_errors, fetched
from trivium.store.store import Store

Scope = Literal["ingest", "read", "label", "admin"]
"""What a token allows: sending traces, reading everything, labels and marks, or all of it."""

SCOPES: tuple[Scope, ...] = get_args(Scope)

PREFIX = "trv_"
"""Every token begins with it, so that scanners for secrets find it."""

_RANDOM_BYTES = 32

SESSION_SECONDS = 12 * 3600.0
"""How long the login of a browser lasts."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without its secret.

    Attributes:
        id: Eight hexadecimal digits.
        name: What it is for; tokens that can be used have different names.
        scopes: What it allows.
        created: Unix time.
        expires: Unix time from which it is refused; None if it does not expire.
        revoked: Unix time at which it was revoked, or None.
        used: Unix time of its last use, to the minute, or None.
    """

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created: float
    expires: float | None = None
    revoked: float | None = None
    used: float | None = None

    @property
    def actor(self) -> str:
        """Name of the token's holder in the audit log and in labels; unique, because ids are."""
        return f"token {self.id} {self.name}"

    def state(self, now: float) -> Literal["active", "expired", "revoked"]:
        """Whether it can be used at a Unix time."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "active"

    def allows(self, scope: Scope) -> bool:
        """Whether it has a scope; ``admin`` has all."""
        return scope in self.scopes or "admin" in self.scopes


class Tokens:
    """The tokens of a store.

    A token has 256 random bits, so that its SHA-256 tells nothing about it: a slow hash, which guards
    passwords that people think of, is not needed.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._engine = store.engine

    def create(
        self, name: str, scopes: Sequence[Scope], *, now: float, expires: float | None = None, actor: str
    ) -> tuple[Token, str]:
        """Make a token; returns it and its secret, which nothing can show again.

        Args:
            name: What it is for.
            scopes: What it allows.
            now: Unix time.
            expires: Unix time from which it is refused.
            actor: Who makes it, for the audit log.

        Raises:
            InputError: If the name is taken or no name.
        """
        name = name.strip()
        if not name or len(name) > 100 or not name.isprintable():
            raise InputError("", "a token needs a name of 1 to 100 printable characters")
        if any(token.name == name and token.state(now) == "active" for token in self.all()):
            raise InputError("", f'a token is called "{name}" already: rotate it, or choose another name')
        with explain_errors(self._engine), self._engine.begin() as connection:
            token, secret = _insert(connection, name, scopes, now, expires)
            add_audit(connection, actor, "token created", _facts(token), now=now)
        return token, secret

    def rotate(self, wanted: str, *, now: float, grace: float = 0.0, actor: str) -> tuple[Token, str]:
        """Make a token with the name, the scopes and the lifetime of another; the other ends after a while.

        Args:
            wanted: Id or name of the token.
            now: Unix time.
            grace: Seconds that the old token still works.
            actor: Who does it, for the audit log.

        Returns:
            The new token and its secret.
        """
        old = self.find(wanted, now)
        expires = None if old.expires is None else now + (old.expires - old.created)
        ends = now + grace if old.expires is None else min(old.expires, now + grace)
        values = {"expires": ends} if grace > 0 else {"revoked": now}
        with explain_errors(self._engine), self._engine.begin() as connection:
            connection.execute(update(_table).where(_table.c.id == old.id).values(values))
            token, secret = _insert(connection, old.name, old.scopes, now, expires)
            add_audit(connection, actor, "token rotated", _facts(token) | {"old": old.id}, now=now)
        return token, secret

    def revoke(self, wanted: str, *, now: float, actor: str) -> Token:
        """End a token; servers refuse it within seconds."""
        token = self.find(wanted, now)
        with explain_errors(self._engine), self._engine.begin() as connection:
            connection.execute(update(_table).where(_table.c.id == token.id).values(revoked=now))
            add_audit(connection, actor, "token revoked", _facts(token), now=now)
        return msgspec.structs.replace(token, revoked=now)

    def all(self) -> list[Token]:
        """All tokens, oldest first, also those that have ended."""
        rows = fetched(self._engine, select(_table).order_by(_table.c.created, _table.c.id)).mappings().all()
        return [_token(row) for row in rows]

    def find(self, wanted: str, now: float) -> Token:
        """The active token with an id or a name.

        Raises:
            InputError: If there is none, or several have the name.
        """
        active = [token for token in self.all() if token.state(now) == "active"]
        found = [token for token in active if wanted in {token.id, token.name}]
        if len(found) == 1:
            return found[0]
        if found:  # one was rotated, and the old one still works
            ids = ", ".join(f"{token.id} (made {_utc(token.created)})" for token in found)
            raise InputError("", f'several active tokens are called "{wanted}": name an id: {ids}')
        hint = suggest(wanted, [token.name for token in active])
        raise InputError("", f'no active token is called "{wanted}".{hint} (`trivium token list`)')

    def active(self, now: float) -> list[tuple[Token, str]]:
        """The tokens that can be used, each with its hash."""
        query = select(_table).where(_table.c.revoked.is_(None))
        rows = fetched(self._engine, query).mappings().all()
        found = [(_token(row), str(row["hash"])) for row in rows]
        return [(token, hashed) for token, hashed in found if token.state(now) == "active"]

    def mark_used(self, token: Token, now: float) -> None:
        """Keep when a token was used."""
        with explain_errors(self._engine), self._engine.begin() as connection:
            connection.execute(update(_table).where(_table.c.id == token.id).values(used=now))


class Sessions:
    """Sessions of browsers, each of which stands for a token.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._engine = store.engine

    def open(self, token: str, *, now: float) -> str:
        """Begin a session of the token with this id; returns the value of its cookie."""
        value = secrets.token_urlsafe(_RANDOM_BYTES)
        row = {"hash": hash_of(value), "token": token, "expires": now + SESSION_SECONDS}
        with explain_errors(self._engine), self._engine.begin() as connection:
            connection.execute(delete(_sessions).where(_sessions.c.expires <= now))
            connection.execute(insert(_sessions).values(row))
        return value

    def token_of(self, value: str, *, now: float) -> str | None:
        """The id of the token that a session stands for; None if it has ended."""
        query = select(_sessions.c.token).where(_sessions.c.hash == hash_of(value), _sessions.c.expires > now)
        return fetched(self._engine, query).scalar()

    def count(self, now: float) -> dict[str, int]:
        """Count the sessions that go on, by id of the token."""
        query = select(_sessions.c.token, func.count()).where(_sessions.c.expires > now)
        rows = fetched(self._engine, query.group_by(_sessions.c.token))
        return {row[0]: row[1] for row in rows}

    def close(self, value: str, *, now: float) -> str | None:
        """End a session; returns the id of its token, or None if it had ended before."""
        ended = delete(_sessions).where(_sessions.c.hash == hash_of(value))
        with explain_errors(self._engine), self._engine.begin() as connection:
            row = connection.execute(ended.returning(_sessions.c.token, _sessions.c.expires)).first()
        return None if row is None or row.expires <= now else str(row.token)


def matching(secret: str, active: Sequence[tuple[Token, str]]) -> Token | None:
    """The token with a secret, or None; takes equally long whatever the secret is."""
    hashed = hash_of(secret)
    found = None
    for token, stored in active:
        if hmac.compare_digest(hashed, stored):
            found = token
    return found


def hash_of(secret: str) -> str:
    """Return the hash of a secret, which the store keeps."""
    return sha256(secret.encode(errors="replace")).hexdigest()


_table, _sessions = schema.tokens, schema.sessions


def _insert(
    connection: Connection, name: str, scopes: Sequence[Scope], now: float, expires: float | None
) -> tuple[Token, str]:
    secret = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    token = Token(
        id=secrets.token_hex(4),
        name=name,
        scopes=tuple(scope for scope in SCOPES if scope in scopes),
        created=now,
        expires=expires,
    )
    as_stored = {"hash": hash_of(secret), "scopes": " ".join(token.scopes)}
    connection.execute(_table.insert().values(msgspec.structs.asdict(token) | as_stored))
    return token, secret


def _token(row: object) -> Token:
    values = {key: value for key, value in dict(row).items() if key != "hash"}  # type: ignore[call-overload]
    return Token(**values | {"scopes": tuple(values["scopes"].split())})


def _utc(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


def _facts(token: Token) -> dict[str, object]:
    return {"id": token.id, "name": token.name, "scopes": token.scopes, "expires": token.expires}
