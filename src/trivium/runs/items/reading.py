"""Reads items from every file format that can hold them (docs/definitions/files.md#items)."""

from importlib import import_module
from pathlib import Path

from trivium.errors import ItemsError
from trivium.records.lines import JsonLines
from trivium.records.names import ITEM_NAMES
from trivium.records.source import FILES, files_of, is_pattern
from trivium.runs.items.files import read_records
from trivium.runs.items.records import Item
from trivium.runs.items.table import ItemTable, Origin, TableBuilder
from trivium.storage import path_of
from trivium.suites.columns import FieldNames

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
    place = Path(path) if is_pattern(str(path)) else path_of(path)
    if place.suffix.lower() == ".json":
        return _read(".json", place, mode)
    if mode is not None:
        raise ItemsError(str(path), f'only a run artifact (.json) has modes; "{mode}" means nothing here')
    files = files_of(str(path), error=ItemsError)
    if files is not None and not files:
        raise ItemsError(str(path), f"a folder without files of items ({', '.join(FILES)})")
    builder = TableBuilder(Origin(path=str(path)), word=_word(place))
    names = FieldNames(ITEM_NAMES)
    for file in files or [place]:
        if files is not None:
            builder.begin_file(str(file), _word(file))
        for number, item in read_records(file, Item, builder.problem, names=names):
            builder.add(item, number)
    if builder.is_empty:
        raise ItemsError(str(path), "holds no items, expected one a line (or row)")
    notes = names.note(), builder.repeated()
    return builder.table(notes=tuple(note for note in notes if note))


def _word(file: Path) -> str:
    """What a record of a file is called in messages."""
    word: str = FILES.get(file.suffix.lower(), JsonLines).word
    return word


def _read(format: str, path: Path, mode: str | None) -> ItemTable:  # noqa: A002
    module, _, function = FORMATS[format].partition(":")
    table: ItemTable = getattr(import_module(module), function)(path, mode=mode)
    return table
