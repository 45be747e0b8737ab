"""Reading items from any file that can hold them (spec: files, items)."""

from pathlib import Path

from trivium.errors import ItemsError
from trivium.runs.items.item import Item
from trivium.runs.items.lines import WORDS, read_records
from trivium.runs.items.table import ItemTable, Origin, TableBuilder

INSPECT = "inspect:"
"""Before the path of a log of Inspect AI."""


def read_items(path: str | Path, *, mode: str | None = None) -> ItemTable:
    """Items of a .jsonl, .csv or .parquet file, a run artifact of the PHQ-8 form (.json), or ``inspect:LOG``.

    A file of items is read line by line into columns, so that ten million items fit in memory.

    Args:
        path: Where they are.
        mode: Which predictor of a run artifact; of a log, two scorers, ``PRED:TRUTH``.

    Raises:
        ItemsError: If the file cannot be read, or an item is wrong; names line, group and item.
    """
    if str(path).startswith(INSPECT):
        from trivium.runs.items.inspect_log import read_inspect_items

        return read_inspect_items(Path(str(path).removeprefix(INSPECT)), mode=mode)
    place = Path(path)
    if place.suffix.lower() == ".json":
        from trivium.runs.items.phq8 import read_phq8

        return read_phq8(place, mode=mode)
    if mode is not None:
        raise ItemsError(str(path), f'only a run artifact (.json) has modes; "{mode}" means nothing here')
    builder = TableBuilder(Origin(path=str(path)), word=WORDS.get(place.suffix.lower(), "line"))
    for number, item in read_records(place, Item, builder.problem):
        builder.add(item, number)
    if builder.is_empty:
        raise ItemsError(str(path), "holds no items, expected one a line (or row)")
    repeated = builder.repeated()
    return builder.table(notes=(repeated,) if repeated else ())
