"""``trivium backup`` and ``trivium restore``: copy a store to a file and back."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trivium.cli import options
from trivium.cli.output import print_answer
from trivium.safe_text import visible

if TYPE_CHECKING:
    from trivium.store.backup import Backup


@options.command(
    "trivium backup backup.db", "trivium backup nightly.db --store postgresql://trivium@127.0.0.1/trivium"
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@options.store
@options.as_json
def backup(file: Path, *, store: str, as_json: bool) -> None:
    """Copy the whole store to FILE, while it is in use, and verify the copy.

    FILE is an SQLite store, whatever database it was made from. It appears only when it is complete.
    """
    from trivium.store.backup import back_up

    _print(back_up(store, file), f"{file}: a verified copy of the store", as_json=as_json)


@options.command(
    "trivium restore backup.db --store sqlite:///restored.db",
    "trivium restore backup.db --store postgresql://trivium@127.0.0.1/trivium",
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@options.store
@options.option(
    "--with-tokens",
    is_flag=True,
    help="Also restore tokens and logins: those that were ended after the backup work again.",
)
@options.as_json
def restore(file: Path, *, store: str, with_tokens: bool, as_json: bool) -> None:
    """Copy the backup FILE into an empty store, SQLite or PostgreSQL, and verify it.

    Everything is restored but tokens and logins, or nothing.
    """
    from trivium.store.backup import restore as restore_backup
    from trivium.values import counted

    made = restore_backup(file, store, tokens=with_tokens)
    _print(made, f"{file}: restored and verified", as_json=as_json)
    if made.left_out:
        tokens = counted(made.left_out.get("tokens", 0), "token")
        logins = counted(made.left_out.get("sessions", 0), "login")
        click.echo(
            f"{tokens} and {logins} are left out, because some may have been ended since: make tokens "
            "(`trivium token create`), or restore into an empty store with --with-tokens",
            err=True,
        )
    elif with_tokens:
        _warn_of_tokens(store)


def _warn_of_tokens(store: str) -> None:
    """Name the tokens that can be used after a restore, and those whose logins go on."""
    from trivium.store.store import Store
    from trivium.store.tokens import Sessions, Tokens

    with Store(store, create=False) as opened:
        now = time.time()
        active, logins = Tokens(opened).active(now), Sessions(opened).count(now)
    if not active:
        return
    click.echo(
        "Warning: these tokens work again, also if they were revoked after the backup was made:", err=True
    )
    for token, _ in active:
        login = f", {logins[token.id]:,} logins" if token.id in logins else ""
        click.echo(f"  {token.id} {visible(token.name)} ({', '.join(token.scopes)}{login})", err=True)
    click.echo("Revoke those that should not: trivium token revoke ID", err=True)


def _print(made: "Backup", sentence: str, *, as_json: bool) -> None:
    from trivium.values import counted

    rows = sum(made.rows.values())
    lines = [f"{sentence}: {counted(rows, 'row')}, {made.bytes / 1e6:,.1f} MB"]
    lines += [f"  {table:<16} {number:>12,}" for table, number in made.rows.items()]
    print_answer(made, lambda _: "\n".join(lines), as_json=as_json)
