"""Reads items from every file format that can hold them (spec: files, items)."""

from importlib import import_module
from pathlib import Path

from trivium.errors import ItemsError
from trivium.runs.items.files import WORDS, read_records
from trivium.runs.items.records import Item
from trivium.runs.items.table import ItemTable, Origin, TableBuilder

FORMATS = {
    "inspect:": "trivium.formats.inspect_log.samples:read_inspect_items",
    ".json": "trivium.formats.phq8:read_phq8",
}
"""Functions that read items of other tools, by prefix or suffix of the source."""

INSPECT = "inspect:"
"""Prefix of the path of an Inspect AI log."""


def read_items(path: str | Path, *, mode: str | None = None) -> ItemTable:
    """Read items from a .jsonl, .csv or .parquet file, a PHQ-8 run artifact (.json), or ``inspect:LOG``.

    A file of items is read line by line into columns, so that ten million items fit in memory.

    Args:
        path: The source.
        mode: Name of the predictor in a run artifact; for a log, two scorers as ``PRED:TRUTH``.

    Raises:
        ItemsError: If the file cannot be read, or an item is invalid; names line, group and item.
    """
    if str(path).startswith(INSPECT):
        return _read(INSPECT, Path(str(path).removeprefix(INSPECT)), mode)
    place = Path(path)
    if place.suffix.lower() == ".json":
        return _read(".json", place, mode)
    if mode is not None:
        raise ItemsError(str(path), f'only a run artifact (.json) has modes; "{mode}" means nothing here')
    builder = TableBuilder(Origin(path=str(path)), word=WORDS.get(place.suffix.lower(), "line"))
    for number, item in read_records(place, Item, builder.problem):
        builder.add(item, number)
    if builder.is_empty:
        raise ItemsError(str(path), "holds no items, expected one a line (or row)")
    repeated = builder.repeated()
    return builder.table(notes=(repeated,) if repeated else ())


def _read(format: str, path: Path, mode: str | None) -> ItemTable:  # noqa: A002
    module, _, function = FORMATS[format].partition(":")
    table: ItemTable = getattr(import_module(module), function)(path, mode=mode)
    return table
