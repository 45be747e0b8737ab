"""``trivium backup`` and ``trivium restore``: copy a store to a file and back."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trivium.cli import options

if TYPE_CHECKING:
    from trivium.store.backup import Backup


@click.command(
    epilog=options.examples(
        "trivium backup backup.db",
        "trivium backup nightly.db --store postgresql://trivium@127.0.0.1/trivium",
    )
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


@click.command(
    epilog=options.examples(
        "trivium restore backup.db --store sqlite:///restored.db",
        "trivium restore backup.db --store postgresql://trivium@127.0.0.1/trivium",
    )
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@options.store
@options.as_json
def restore(file: Path, *, store: str, as_json: bool) -> None:
    """Copy the backup FILE into an empty store, SQLite or PostgreSQL, and verify it.

    Everything is restored, or nothing.
    """
    from trivium.store.backup import restore as restore_backup

    _print(restore_backup(file, store), f"{file}: restored and verified", as_json=as_json)


def _print(made: "Backup", sentence: str, *, as_json: bool) -> None:
    from trivium.cli.output import print_json
    from trivium.reports.wording import counted

    if as_json:
        print_json(made)
        return
    rows = sum(made.rows.values())
    click.echo(f"{sentence}: {counted(rows, 'row')}, {made.bytes / 1e6:,.1f} MB")
    for table, number in made.rows.items():
        click.echo(f"  {table:<16} {number:>12,}")
