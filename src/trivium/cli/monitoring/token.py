"""``trivium token``: makes, lists, rotates and revokes the access tokens of the server."""

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec

from trivium.cli import options
from trivium.cli.main import LazyCommands
from trivium.cli.options import user_name
from trivium.cli.output import print_answer

if TYPE_CHECKING:
    from trivium.reports.document.blocks import Block
    from trivium.store.tokens import Scope, Token, Tokens

DAY = 86_400.0

SCOPES = ("ingest", "read", "label", "admin")

COMMANDS = {
    "create": ("trivium.cli.monitoring.token:create", "Make a token, and show it once."),
    "list": ("trivium.cli.monitoring.token:list_tokens", "List the tokens, without their secrets."),
    "rotate": ("trivium.cli.monitoring.token:rotate", "Replace a token by a new one."),
    "revoke": ("trivium.cli.monitoring.token:revoke", "Revoke a token."),
}


@click.group(cls=LazyCommands, table=COMMANDS, help="Make, list, rotate and revoke the tokens of the server.")
def token() -> None:
    """The group of the commands."""


@options.command(
    "trivium token create support-bot --scope ingest", "trivium token create grafana --scope read --days 90"
)
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=options.Choice(SCOPES),
    multiple=True,
    required=True,
    help="What it allows: ingest (send traces), read, label (also marks), admin (all). Repeatable.",
)
@click.option(
    "--days", type=click.FloatRange(0, min_open=True), help="Days after which it expires; never by default."
)
@options.store
@options.as_json
def create(name: str, *, scopes: "tuple[Scope, ...]", days: float | None, store: str, as_json: bool) -> None:
    """Make a token called NAME, and show it once: the store has only its hash."""
    now = time.time()
    expires = None if days is None else now + days * DAY
    with _opened(store) as tokens:
        made, secret = tokens.create(name, scopes, now=now, expires=expires, actor=_user())
    _show_secret(made, secret, as_json=as_json)


@options.command("trivium token list --store sqlite:///production.db")
@options.store
@options.as_json
def list_tokens(*, store: str, as_json: bool) -> None:
    """List the tokens, including expired and revoked ones; the store keeps no secrets."""
    now = time.time()
    with _opened(store) as tokens:
        found = tokens.all()
    print_answer([_record(each, now) for each in found], lambda _: _shown(found, now), as_json=as_json)


def _shown(tokens: "list[Token]", now: float) -> "Iterator[Block] | str":
    from trivium.reports.document.blocks import table_of

    if not tokens:
        return "no token yet: trivium token create NAME --scope ingest"
    rows = [
        (each.id, each.name, " ".join(each.scopes), each.state(now), _day(each.expires), _day(each.used))
        for each in tokens
    ]
    heads = ("id", "name", "scopes", "state", "expires (UTC)", "last used")
    return iter([table_of(heads, ("interval", "name", "text", "interval", "interval", "interval"), rows)])


@options.command("trivium token rotate support-bot --grace-hours 24")
@click.argument("wanted", metavar="NAME|ID")
@click.option(
    "--grace-hours",
    type=click.FloatRange(0),
    default=0,
    show_default=True,
    help="Hours that the old token still works.",
)
@options.store
@options.as_json
def rotate(wanted: str, *, grace_hours: float, store: str, as_json: bool) -> None:
    """Replace a token by a new one with the same name and scopes."""
    with _opened(store) as tokens:
        made, secret = tokens.rotate(wanted, now=time.time(), grace=grace_hours * 3600, actor=_user())
    _show_secret(made, secret, as_json=as_json)


@options.command("trivium token revoke support-bot")
@click.argument("wanted", metavar="NAME|ID")
@options.store
@options.as_json
def revoke(wanted: str, *, store: str, as_json: bool) -> None:
    """Revoke a token; servers refuse it within seconds."""
    now = time.time()
    with _opened(store) as tokens:
        ended = tokens.revoke(wanted, now=now, actor=_user())
    said = f'{ended.id}: the token "{ended.name}" is revoked; servers refuse it within 5 seconds'
    print_answer(_record(ended, now), lambda _: said, as_json=as_json)


@contextmanager
def _opened(url: str) -> Iterator["Tokens"]:
    """Open the tokens of a store for a block."""
    from trivium.store.store import Store
    from trivium.store.tokens import Tokens

    with Store(url) as store:
        yield Tokens(store)


def _user() -> str:
    """Return the user and machine, for the audit log."""
    return f"{user_name()}@{platform.node()}"


def _show_secret(made: "Token", secret: str, *, as_json: bool) -> None:
    if not as_json:  # only the token is on standard output: it can be piped into a secret store
        click.echo(
            f'{made.id}: "{made.name}" may {", ".join(made.scopes)}; expires: {_day(made.expires)}. '
            "Keep it now, it is not shown again:",
            err=True,
        )
    print_answer(_record(made, made.created) | {"token": secret}, lambda _: secret, as_json=as_json)


def _record(token_: "Token", now: float) -> dict[str, object]:
    return {**msgspec.to_builtins(token_), "state": token_.state(now)}


def _day(time_: float | None) -> str:
    return "never" if time_ is None else f"{datetime.fromtimestamp(time_, UTC):%Y-%m-%d %H:%M}"
