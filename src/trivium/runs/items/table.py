"""Stores items in columns: a few dozen bytes per item, so that ten million items fit in memory."""

import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from math import isfinite, nan
from operator import itemgetter
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import MOST_PROBLEMS, ItemsError, Problem
from trivium.runs.items.records import Item
from trivium.suites.certificate import JudgedBy
from trivium.trust.arrays import Floats
from trivium.trust.cluster_bootstrap import Groups, ordered_ids
from trivium.trust.confidence.signals import SignalColumns


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The source of items.

    Attributes:
        path: The file, or the store of the run.
        run_id: Id of the run that made the predictions, if known.
        git_commit: The commit of that run, if known.
        mode: Name of the predictor in the file, or the dimension of a run.
    """

    path: str
    run_id: str | None = None
    git_commit: str | None = None
    mode: str | None = None
    judge: str | None = None


class Unlabelled(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Predictions without a truth, used only for bias correction.

    Attributes:
        groups: The group of each of the m predictions.
        pred: The predictions, shape (m,).
    """

    groups: tuple[str, ...] = ()
    pred: Floats = np.empty(0)


ONE_BY_ONE = "items count one by one, which is right only where those of one group are independent"


class ItemTable(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The n items of groups whose run succeeded.

    Attributes:
        origin: The source of the items.
        groups: The group of each item; the ids include groups without items.
        failed: Ids of the groups whose run failed.
        names: Name of each item within its group.
        files: Where the items come from, in order.
        numbers: Number of the line or row of each item, shape (n,).
        pred: Predictions, shape (n,); NaN for an abstention.
        gt: Truths, shape (n,).
        confidence: Stated confidences, shape (n,); NaN if none is stated.
        signals: The signals of each item.
        scale: Lowest and highest value of pred and gt, if the source declares them.
        weights: How many times each item counts, shape (n,), above 0, for labels asked for actively; None if
            each counts once.
        at_random: Whether each item belongs to a simple random sample, shape (n,); None if all do.
        notes: Reservations about how the items were made.
        rest: Unlabelled predictions of the same run.
        provenance: Judges and prompts, if known.
        default_confidence: The confidence used if none is named or stated; None for the best signal.
        judged_by: Conditions of judging, as stored in a certificate; None if the items are not of a run.
        sides: Names of the two sides: who predicts, and who gives the truth.
        group_size: Most items of a group, labelled or not, and from where that is known: all items of a run,
            or items counted one by one. None if only the labelled items are known.
    """

    origin: Origin
    groups: Groups
    failed: tuple[str, ...]
    names: "PackedTexts"
    files: tuple["File", ...]
    numbers: npt.NDArray[np.int64]
    pred: Floats
    gt: Floats
    confidence: Floats
    signals: SignalColumns
    scale: tuple[float, float] | None = None
    weights: Floats | None = None
    at_random: npt.NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = ()
    rest: Unlabelled = Unlabelled()
    provenance: dict[str, Any] = {}
    default_confidence: str | None = None
    judged_by: JudgedBy | None = None
    sides: tuple[str, str] = ("judge", "people")
    group_size: tuple[int, Literal["run", "unit"]] | None = None

    @property
    def n(self) -> int:
        """Number of items."""
        return self.pred.size

    def __len__(self) -> int:
        return self.n

    @property
    def predicted(self) -> npt.NDArray[np.bool_]:
        """Whether each item has a prediction, shape (n,)."""
        return ~np.isnan(self.pred)

    @property
    def states_confidence(self) -> bool:
        """Whether any prediction states a confidence."""
        return bool((~np.isnan(self.confidence) & self.predicted).any())

    @property
    def group_names(self) -> "Sequence[str]":
        """The group of each item, looked up on access."""
        return _GroupNames(self.groups)

    def groups_of(self, rows: npt.NDArray[np.int64]) -> Groups:
        """The groups of some items, without those that have none of them."""
        return Groups.of([self.groups.ids[code] for code in self.groups.codes[rows]])

    def one_by_one(self) -> "ItemTable":
        """Return the same items, each a group of its own: for items that are independent within groups."""
        return msgspec.structs.replace(
            self,
            groups=Groups(ids=tuple(map(str, range(self.n))), codes=np.arange(self.n)),
            rest=Unlabelled(
                groups=tuple(f"unlabelled {row}" for row in range(self.rest.pred.size)), pred=self.rest.pred
            ),
            notes=(*self.notes, ONE_BY_ONE),
            group_size=(1, "unit"),
        )

    def name(self, row: int) -> str:
        """Return the name of an item for messages: source, line, group and item."""
        path, word, _ = file_of(self.files, row)
        where = f"{word} {self.numbers[row]}" if word else ""
        group = self.groups.ids[self.groups.codes[row]]
        return f"{path}: {_called(where, group, self.names[row])}"


File = tuple[str, str, int]
"""A file of items: its name, the unit of its numbers (``line`` or ``row``, or empty) and its first row."""


def file_of(files: Sequence[File], row: int) -> File:
    """The file of a row."""
    return files[bisect_right(files, row, key=itemgetter(2)) - 1]


class _GroupNames(Sequence[str]):
    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def __len__(self) -> int:
        return self._groups.codes.size

    def __getitem__(self, row: Any) -> Any:
        return self._groups.ids[self._groups.codes[row]]


class PackedTexts(Sequence[str]):
    """A sequence of many short texts, stored in one buffer."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("q")

    def append(self, text: str) -> None:
        """Add a text."""
        self._bytes += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, row: Any) -> Any:
        start = self._ends[row - 1] if row else 0
        return self._bytes[start : self._ends[row]].decode("utf-8", "surrogatepass")


_VALUE = re.compile(r'"[^"]*"|\d[\d.,]*')


def _kind_of_value(found: re.Match[str]) -> str:
    """Keep the names of fields in a message, and leave out values, so that mistakes of a kind are alike."""
    text = found.group()
    return text if text.strip('"') in Item.__struct_fields__ else "…"


class TableBuilder:
    """Builds a table from items one at a time, and collects their mistakes.

    Args:
        origin: The source of the items.
        word: Unit of their numbers: ``line`` or ``row``; empty if the source has neither.
        scale: Lowest and highest value of pred and gt, if the source declares them.
    """

    def __init__(self, origin: Origin, *, word: str = "", scale: tuple[float, float] | None = None) -> None:
        self._origin = origin
        self._scale = scale
        self._codes: dict[str, int] = {}
        self._failed: dict[str, tuple[int, int]] = {}
        self._rows, self._numbers = array("q"), array("q")
        self._pred, self._gt, self._confidence = array("d"), array("d"), array("d")
        self._weights, self._at_random = array("d"), array("b")
        self._names = PackedTexts()
        self._hashes = array("q")
        self._signals = SignalColumns()
        self._source, self._found = origin.path, 0
        self._alike: dict[str, tuple[Problem, int]] = {}
        """The first mistake of each kind, and the number of further ones."""
        self._files: list[File] = [(origin.path, word, 0)]

    def begin_file(self, path: str, word: str) -> None:
        """Begin a file: messages name it for what is added from now on; ``word`` is the unit of numbers."""
        if self._source:
            self._source, self._files = "", []
        self._files.append((path, word, len(self._rows)))

    @property
    def is_empty(self) -> bool:
        """Whether no item, group or mistake has been added."""
        return not (self._codes or self._failed or self._alike)

    def problem(
        self, number: int, what: str, *, group: str | None = None, item: str | None = None, file: int = -1
    ) -> None:
        """Add a mistake at a line or row of a file, by default of the latest."""
        path, word, _ = self._files[file]
        where = f"{'' if self._source else f'{path}: '}{word} {number}" if word else ""
        kind = f"{path}: {_VALUE.sub(_kind_of_value, what)}"
        self._found += 1
        if kind in self._alike:
            first, further = self._alike[kind]
            self._alike[kind] = first, further + 1
        elif len(self._alike) < MOST_PROBLEMS:
            self._alike[kind] = Problem(_called(where, group, item), what), 0

    def _check(self) -> None:
        """Raise an error that lists each kind of mistake once, with the number of further ones like it."""
        listed = [
            Problem(problem.where, f"{problem.what} (and {further:,} more like it)") if further else problem
            for problem, further in self._alike.values()
        ]
        if listed:
            told = sum(1 + further for _, further in self._alike.values())
            raise ItemsError(self._source, listed, left_out=self._found - told)

    def group(self, id: str) -> None:  # noqa: A002 - the field's name in the records
        """Add a group whose run succeeded, with or without items."""
        self._codes.setdefault(id, len(self._codes))

    def add(self, item: Item, number: int, *, weight: float = 1.0, at_random: bool = True) -> None:
        """Add the item of a line or row, or its mistakes; weight and at_random are those of the table."""
        name, pred, gt, confidence = item.item, item.pred, item.gt, item.confidence
        if not item.success:
            self._failed[item.group] = number, len(self._files) - 1
            if name is not None:
                self.problem(number, "an item of a group that failed", group=item.group, item=name)
        elif (
            name is not None
            and isinstance(gt, float)
            and isfinite(gt)
            and (pred is None or (isinstance(pred, float) and isfinite(pred)))
            and (pred is None or confidence is None or isfinite(confidence))
        ):
            self._rows.append(self._codes.setdefault(item.group, len(self._codes)))
            self._numbers.append(number)
            self._names.append(name)
            self._hashes.append(hash(name))
            self._pred.append(nan if pred is None else pred)
            self._gt.append(gt)
            self._weights.append(weight)
            self._at_random.append(at_random)
            self._confidence.append(nan if confidence is None else confidence)
            self._signals.append(item.signals or {})
        else:
            for what in _faults(item):
                self.problem(number, what, group=item.group, item=name)

    def repeated(self) -> str:
        """Describe how many items have the group and name of an earlier one; empty if none has."""
        groups = np.frombuffer(self._rows, np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        hashes = groups ^ np.frombuffer(self._hashes, np.uint64)
        ordered = np.sort(hashes)
        if not (ordered[1:] == ordered[:-1]).any():
            return ""
        _, first = np.unique(hashes, return_index=True)
        repeats = hashes.size - first.size
        is_repeat = np.ones(hashes.size, np.bool_)
        is_repeat[first] = False
        row = int(is_repeat.argmax())
        path, word, _ = file_of(self._files, row)
        where = f"{'' if self._source else f'{path}: '}{word} {self._numbers[row]:,}"
        return (
            f"{repeats:,} of {hashes.size:,} items have the group and the name of an earlier one "
            f"(the first in {where}): each counts as an item of its own"
        )

    def table(self, **others: Any) -> ItemTable:
        """Build the table; the arguments are further attributes.

        Raises:
            ItemsError: If any item was invalid; names line, group and item.
        """
        for group, (number, file) in self._failed.items():
            if group in self._codes:
                self.problem(number, "is said to have failed, and has items", group=group, file=file)
        self._check()
        ids = ordered_ids(self._codes)
        place = {id_: code for code, id_ in enumerate(ids)}
        moved = np.array([place[id_] for id_ in self._codes], np.int64)
        rows = np.frombuffer(self._rows, np.int64)
        weights, at_random = np.frombuffer(self._weights), np.frombuffer(self._at_random, np.bool_)
        return ItemTable(
            origin=self._origin,
            groups=Groups(ids=tuple(ids), codes=moved[rows] if rows.size else rows),
            failed=tuple(ordered_ids(self._failed)),
            names=self._names,
            files=tuple(self._files),
            numbers=np.frombuffer(self._numbers, np.int64),
            pred=np.frombuffer(self._pred),
            gt=np.frombuffer(self._gt),
            confidence=np.frombuffer(self._confidence),
            signals=self._signals,
            scale=self._scale,
            weights=None if (weights == 1).all() else weights,
            at_random=None if at_random.all() else at_random,
            **others,
        )


def _called(where: str, group: str | None, item: str | None) -> str:
    named = [f'{word} "{name}"' for word, name in (("group", group), ("item", item)) if name is not None]
    return ", ".join([where, *named] if where else named)


def _faults(item: Item) -> list[str]:
    """Describe what is wrong with an item; an abstention may leave its confidence undefined."""
    mistakes = ['"item" is missing'] if item.item is None else []
    if item.pred is msgspec.UNSET:
        mistakes.append('"pred" is missing (null abstains)')
    if item.gt is msgspec.UNSET or item.gt is None:
        mistakes.append('"gt" is missing: every item needs its truth')
    numbers = {"pred": item.pred, "gt": item.gt}
    if item.pred is not None:
        numbers["confidence"] = item.confidence
    for key, value in numbers.items():
        if isinstance(value, float) and not isfinite(value):
            mistakes.append(f'"{key}" is {"NaN" if value != value else "infinite"}; expected a finite number')  # noqa: PLR0124
    return mistakes
