"""Reads items from every file format that can hold them (docs/definitions/files.md#items)."""

import glob
from importlib import import_module
from pathlib import Path

from trivium.errors import ItemsError
from trivium.records.names import ITEM_NAMES
from trivium.runs.items.files import WORDS, read_records
from trivium.runs.items.records import Item
from trivium.runs.items.table import ItemTable, Origin, TableBuilder
from trivium.storage import path_of
from trivium.suites.columns import FieldNames
from trivium.suites.files.many_files import files_in, matching_files

FORMATS = {
    "inspect:": "trivium.formats.inspect_log.samples:read_inspect_items",
    ".json": "trivium.formats.phq8:read_phq8",
}
"""Functions that read items of other tools, by prefix or suffix of the source."""

INSPECT = "inspect:"
"""Prefix of the path of an Inspect AI log."""


def read_items(path: str | Path, *, mode: str | None = None) -> ItemTable:
    """Read items from .jsonl, .csv or .parquet files, a PHQ-8 run artifact (.json), or ``inspect:LOG``.

    A file of items is read line by line into columns, so that ten million items fit in memory.

    Args:
        path: The source: a file, a folder of .jsonl, .csv and .parquet files, or a pattern such as
            ``items/*.jsonl``.
        mode: Name of the predictor in a run artifact; for a log, two scorers as ``PRED:TRUTH``.

    Raises:
        ItemsError: If the file cannot be read, or an item is invalid; names line, group and item.
    """
    if str(path).startswith(INSPECT):
        return _read(INSPECT, Path(str(path).removeprefix(INSPECT)), mode)
    place = path if isinstance(path, Path) else _place_of(path)
    if place.suffix.lower() == ".json":
        return _read(".json", place, mode)
    if mode is not None:
        raise ItemsError(str(path), f'only a run artifact (.json) has modes; "{mode}" means nothing here')
    files = _files_of(str(path))
    builder = TableBuilder(Origin(path=str(path)), word=WORDS.get(place.suffix.lower(), "line"))
    names = FieldNames(ITEM_NAMES)
    for file in files or [place]:
        if files is not None:
            builder.begin_file(str(file), WORDS.get(file.suffix.lower(), "line"))
        for number, item in read_records(file, Item, builder.problem, names=names):
            builder.add(item, number)
    if builder.is_empty:
        raise ItemsError(str(path), "holds no items, expected one a line (or row)")
    notes = names.note(), builder.repeated()
    return builder.table(notes=tuple(note for note in notes if note))


def _place_of(source: str) -> Path:
    """The path of a source; of a pattern at an address, a path that is not asked for."""
    return Path(source) if glob.has_magic(source) else path_of(source)


def _files_of(source: str) -> list[Path] | None:
    """Return the files of items in a folder, or that a pattern names, sorted; None if the source is neither.

    Raises:
        ItemsError: If there are none.
    """
    try:
        if not _place_of(source).is_dir():
            return matching_files(source, error=ItemsError)
    except OSError:
        return None  # a name that no file can have, which reading it describes
    files = files_in(_place_of(source), WORDS, error=ItemsError)
    if not files:
        raise ItemsError(source, f"a folder without files of items ({', '.join(WORDS)})")
    return files


def _read(format: str, path: Path, mode: str | None) -> ItemTable:  # noqa: A002
    module, _, function = FORMATS[format].partition(":")
    table: ItemTable = getattr(import_module(module), function)(path, mode=mode)
    return table
