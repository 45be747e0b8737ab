"""Reads items as other tools write them (docs/definitions/files.md#items).

Fields under other names, words such as ``ACCEPT`` for numbers, lines that name no item, and further columns.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from trivium.records.names import ITEM_NAMES, plain_name
from trivium.records.validation import quote, unknown_key
from trivium.runs.items.records import Item

WORDS = {
    frozenset({"accept", "reject"}): "accept",
    frozenset({"pass", "fail"}): "pass",
    frozenset({"yes", "no"}): "yes",
    frozenset({"true", "false"}): "true",
}
"""Pairs of words that a prediction and its truth may be, and the one that is read as 1; the other is 0."""

_PAIR_OF = {word: pair for pair in WORDS for word in pair}
_EXPECTED = "expected a number, or one of accept and reject, pass and fail, yes and no, true and false"
_ALIKE = 0.8
_SHAPES_KEPT = 1000
_NAMES_LISTED = 6


class OtherTools:
    """Turns the records of a source into those of items, and keeps what it read as what.

    Attributes:
        renamed: Field of each column that has another name.
        unread: Columns that mean nothing for an item.
    """

    def __init__(self) -> None:
        self.renamed: dict[str, str] = {}
        self.unread: dict[str, None] = {}
        self._shapes: dict[tuple[str, ...], tuple[dict[str, str], list[str]]] = {}
        self._pair: frozenset[str] | None = None
        self._numbers = False
        self._names_items: bool | None = None
        self._named_by_place = False

    def fields(self, names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """Field of each column that is read, and what is wrong with others.

        A column is wrong if it may well be a field: a misspelling of one that is not there, or a second
        prediction or truth.
        """
        key = tuple(names)
        if key not in self._shapes:
            if len(self._shapes) == _SHAPES_KEPT:
                self._shapes.clear()
            self._shapes[key] = self._fields(key)
        return self._shapes[key]

    def _fields(self, names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        known = Item.__struct_fields__
        found = {name: name for name in names if name in known or name.startswith("signals.")}
        plain: dict[str, str] = {}
        for name in names:
            if name not in found:
                plain.setdefault(plain_name(name), name)
        for field, aliases in ITEM_NAMES.items():
            if field in found.values():
                continue
            other = next((plain[alias] for alias in aliases if alias in plain), None)
            if other is not None:
                found[other] = self.renamed[other] = field
                del plain[plain_name(other)]
        wrong = []
        absent = [field for field in known if field not in found.values()]
        absent += [name for field in ("pred", "gt") if field in absent for name in ITEM_NAMES[field]]
        for name in names:
            if name in found:
                continue
            second = plain_name(name) in (*ITEM_NAMES["pred"], *ITEM_NAMES["gt"])
            if second or get_close_matches(plain_name(name), absent, n=1, cutoff=_ALIKE):
                wrong.append(unknown_key(name, (*known, *absent)))
            else:
                self.unread[name] = None
        return found, wrong

    def record(self, raw: Mapping[str, Any], number: int) -> tuple[dict[str, Any], list[str]]:
        """An item of a line, not yet validated, and what is wrong with its columns."""
        fields, wrong = self.fields(list(raw))
        found = {fields[name]: value for name, value in raw.items() if name in fields}
        if found.get("success") is not False:
            if self._names_items is None:
                self._names_items = "item" in found
            if not self._names_items and "item" not in found:
                self._named_by_place = True
                found["item"] = str(number)
        return found, wrong

    def plain(self, item: Item) -> str | None:
        """Take in an item that is Trivium's own; what is wrong with it after others, or None."""
        if item.success and self._names_items is None:
            self._names_items = item.item is not None
        if not isinstance(item.gt, float):
            return None
        self._numbers = True
        return None if self._pair is None else self._among_words("gt", f"{item.gt:g}")

    @property
    def needs_every_record(self) -> bool:
        """Whether even a record that is valid as it is must be read by :meth:`record`."""
        return self._names_items is False

    def numbered(self, record: dict[str, Any]) -> list[str]:
        """Replace the words for ``pred`` and ``gt`` in a record by 1 and 0; returns what is wrong."""
        wrong = []
        for field in ("pred", "gt"):
            value = record.get(field)
            if isinstance(value, bool | str):
                word = str(value).strip().lower()
                pair = _PAIR_OF.get(word)
                shown = f'the text "{quote(value)}"' if isinstance(value, str) else word
                if pair is None or self._numbers:
                    wrong.append(f"{field}: found {shown}, {'expected a number' if pair else _EXPECTED}")
                    continue
                self._pair = self._pair or pair
                if pair != self._pair:
                    wrong.append(self._among_words(field, shown))
                record[field] = float(word == WORDS[pair])
            elif isinstance(value, int | float):
                if self._pair is not None:
                    wrong.append(self._among_words(field, quote(str(value))))
                self._numbers = self._pair is None
        return wrong

    def _among_words(self, field: str, shown: str) -> str:
        words = " or ".join(sorted(self._pair or ()))
        return f"{field}: found {shown}, expected {words} as in the items before it"

    def note(self) -> str | None:
        """Describe in one line what was read as what, and what was not read."""
        parts = []
        if self.renamed:
            parts.append("read " + ", ".join(f"{name} as {field}" for name, field in self.renamed.items()))
        if self._pair is not None:
            one = WORDS[self._pair]
            parts.append(f"{one} is 1, {next(iter(self._pair - {one}))} is 0")
        if self._named_by_place:
            parts.append("no item has a name: its line names it")
        if self.unread:
            more = f" and {len(self.unread) - _NAMES_LISTED} more" if len(self.unread) > _NAMES_LISTED else ""
            parts.append(f"not read: {', '.join(list(self.unread)[:_NAMES_LISTED])}{more}")
        return "; ".join(parts) or None
