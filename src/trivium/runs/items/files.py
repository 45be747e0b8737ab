"""Reads items, records, labels and calibrators from files (docs/definitions/files.md#items)."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from trivium.errors import ItemsError, Problem, Problems, TrustError, suggest
from trivium.records.csv_file import CsvFile
from trivium.records.documents import MalformedDocument, parse_lenient_json, parse_line, read_document
from trivium.records.lines import JsonLines
from trivium.records.source import FILES, Records, files_of, is_pattern, open_records
from trivium.records.validation import convert, unknown_key
from trivium.runs.items.other_tools import OtherTools
from trivium.runs.items.records import Item, Label
from trivium.runs.items.table import ItemTable, Origin, TableBuilder
from trivium.safe_text import sanitise
from trivium.storage import path_of
from trivium.store.export.tables import unescape_formula

if TYPE_CHECKING:
    from trivium.trust.calibration.calibrator import Calibrator


T = TypeVar("T", bound=msgspec.Struct)
Refuse = Callable[[int, str], None]
"""Called with the number of a line or row, and a description of its mistake."""

JSON_FIELDS = frozenset({"signals"})
TEXT_FIELDS = frozenset({"group", "item", "case", "dimension", "by", "at", "reason", "model", "prompt"})
TEXT_FIELDS |= {"answer", "run", "how", "queue", "note"}


def read_records(
    path: Path, kind: type[T], refuse: Refuse, *, names: OtherTools | None = None
) -> Iterator[tuple[int, T]]:
    """Yield number and record of every valid line or row.

    Args:
        path: The file.
        kind: Type of the records.
        refuse: Called with each mistake of an invalid line or row.
        names: Reads items as other tools write them; None where the columns are those of ``kind``.

    Raises:
        ItemsError: If the file cannot be read in the format of its suffix.
    """
    records = open_records(path, error=ItemsError)
    if not records.names:
        yield from _of_lines(records, kind, refuse, names)
        return
    field_of = _columns(records.names, kind, path, names)
    read = _cell if isinstance(records, CsvFile) else _typed_cell
    for number, row in records.scan():
        if isinstance(row, Problem):
            refuse(number, row.what)
            continue
        named = ((field_of[name], cell) for name, cell in row.items() if name in field_of)
        raw = {name: value for name, cell in named if (value := read(name, cell)) is not None}
        whole = _whole(raw, kind, list(field_of.values()), number)
        if not _refused(whole, names, number, refuse):
            yield from _converted(whole, kind, number, refuse)


def _of_lines(
    records: Records, kind: type[T], refuse: Refuse, names: OtherTools | None
) -> Iterator[tuple[int, T]]:
    decoder = msgspec.json.Decoder(kind)
    for number, line in records.scan():
        if names is None or not names.needs_every_record:
            try:
                record = decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass  # parsed again below, for a readable message
            else:
                wrong = names.plain(record) if names is not None and isinstance(record, Item) else None
                if wrong is None:
                    yield number, record
                else:
                    refuse(number, wrong)
                continue
        raw = parse_line(line, "", parse=parse_lenient_json)
        if isinstance(raw, Problem):
            refuse(number, str(raw))
            continue
        if isinstance(raw, dict) and names is not None:
            raw, wrongs = names.record(raw, number)
            for what in wrongs:
                refuse(number, f"{_called(raw)}{what}")
            if wrongs or _refused(raw, names, number, refuse):
                continue
        yield from _converted(raw, kind, number, refuse)


def _refused(raw: dict[str, Any], names: OtherTools | None, number: int, refuse: Refuse) -> bool:
    """Read the words of a record as numbers; whether there was a mistake, which is told."""
    wrong = [] if names is None else names.numbered(raw)
    for what in wrong:
        refuse(number, f"{_called(raw)}{what}")
    return bool(wrong)


def _converted(raw: Any, kind: type[T], number: int, refuse: Refuse) -> Iterator[tuple[int, T]]:
    record, problems = convert(raw, kind)
    if record is not None:
        yield number, record
    for problem in problems:
        refuse(number, f"{_called(raw)}{problem}")


def _called(raw: Any) -> str:
    """Identify a raw record in a message, as far as possible."""
    if not isinstance(raw, dict):
        return ""
    keys = [f'{key} "{raw[key]}"' for key in ("group", "item", "case") if isinstance(raw.get(key), str | int)]
    return f"{', '.join(keys)}: " if keys else ""


def _typed_cell(name: str, cell: Any) -> Any:
    """Convert signals given as JSON, a struct or a map, in which null means that a signal is absent."""
    if name in JSON_FIELDS and isinstance(cell, dict):
        return {signal: value for signal, value in cell.items() if value is not None}
    return _cell(name, cell) if name in JSON_FIELDS and isinstance(cell, str) else cell


def _cell(name: str, cell: str) -> Any:
    """Convert a text of a table to None, a boolean, a number, text or JSON."""
    cell = unescape_formula(cell)
    if cell == "" or name in TEXT_FIELDS:
        return cell or None
    if name in JSON_FIELDS:
        try:
            return parse_lenient_json(cell)
        except MalformedDocument:
            return cell
    if cell.lower() in {"true", "false"}:
        return cell.lower() == "true"
    try:
        number = float(cell)
    except ValueError:
        return cell
    return int(number) if name == "repeat" and number.is_integer() else number


def _whole(raw: dict[str, Any], kind: type[msgspec.Struct], header: list[str], number: int) -> dict[str, Any]:
    """Convert a row to a record: ``signals.NAME`` is one signal, and an empty cell means null."""
    whole = {name: value for name, value in raw.items() if "." not in name}
    signals = {name.partition(".")[2]: raw.get(name) for name in header if name.startswith("signals.")}
    if signals:
        stated = whole.get("signals")
        whole["signals"] = {**stated, **signals} if isinstance(stated, dict) else signals
    for nullable in ("pred", "gt", "value"):
        if nullable in header and nullable in kind.__struct_fields__:
            whole.setdefault(nullable, None)
    if kind is Item and "item" not in header and whole.get("success") is not False:
        whole["item"] = str(number)
    return whole


def _columns(
    names: Sequence[str], kind: type[msgspec.Struct], path: Path, other: OtherTools | None
) -> dict[str, str]:
    """Field of each column of a table that is read."""
    if other is not None:
        fields, wrong = other.fields(names)
    else:
        known = kind.__struct_fields__
        fields = {
            name: name
            for name in names
            if name in known or ("signals" in known and name.startswith("signals."))
        }
        wrong = [unknown_key(name, known) for name in names if name not in fields]
    if wrong:
        problems = [Problem("", what.replace("key", "column", 1)) for what in wrong]
        raise ItemsError(str(path), problems)
    return fields


Key = tuple[str, int, str]
"""Case, repeat and dimension."""


class Labels:
    """People's labels; of several people's labels of the same dimension, the median counts.

    Labels that a file calls volunteered are left out.

    Args:
        path: A file, .jsonl, .csv or .parquet; or the name of where the labels come from.
        records: The labels, instead of those of the file.
        notes: Reservations about them.
        weights: How many times the label of an attempt and dimension counts, where not once.
        at_random: The labels of a simple random sample; all by default.

    Raises:
        ItemsError: If the file is invalid, or a person labelled the same dimension of an attempt twice; names
            the lines.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        records: Iterable[Label] | None = None,
        notes: Sequence[str] = (),
        weights: Mapping[Key, float] | None = None,
        at_random: Container[Key] | None = None,
    ) -> None:
        self.source = str(path)
        self.notes = tuple(notes)
        self._weights, self._at_random = weights or {}, at_random
        self._lines: dict[Key, int] = {}
        self._values: dict[Key, list[float]] = {}
        self._problems = Problems(self.source, ItemsError)
        first_lines: dict[tuple[Key, str | None], int] = {}
        refuse, volunteered = self._problems.at_line, 0
        numbered = read_records(Path(path), Label, refuse) if records is None else enumerate(records, start=1)
        for number, label in numbered:
            if label.how == "volunteered":
                volunteered += 1
                continue
            if label.value is None:
                if label.answer != "cannot_tell":
                    what = 'has no value, which only "answer": "cannot_tell" may leave out'
                    refuse(number, f'case "{label.case}": {what}')
                continue
            # Sanitised like the ids of the run's cases.
            key = (sanitise(label.case)[0], label.repeat, label.dimension)
            before = first_lines.setdefault((key, label.by), number)
            if before != number:
                who = f"by {label.by} " if label.by else ""
                called = f'"{label.dimension}" of repeat {label.repeat} of case "{key[0]}"'
                self._problems.at_line(number, f"{called} is labelled {who}in line {before} already")
            self._lines.setdefault(key, number)
            self._values.setdefault(key, []).append(label.value)
        self._problems.check()
        if volunteered:
            one = "1 label that was volunteered is left out: nobody asked for it"
            several = f"{volunteered:,} labels that were volunteered are left out: nobody asked for them"
            self.notes += (one if volunteered == 1 else several,)

    def value(self, key: Key) -> float | None:
        """Return the label in [0, 1], or None."""
        values = self._values.get(key)
        return None if values is None else float(median(values))

    def weight(self, key: Key) -> float:
        """How many times a label counts, above 0."""
        return self._weights.get(key, 1.0)

    def is_at_random(self, key: Key) -> bool:
        """Whether a label belongs to a simple random sample."""
        return self._at_random is None or key in self._at_random

    def of(self, case: str, repeat: int) -> Iterator[str]:
        """Yield the labelled dimensions of an attempt."""
        return (dimension for dimension in self.dimensions if (case, repeat, dimension) in self._values)

    @property
    def dimensions(self) -> list[str]:
        """All dimensions, in the order of the file."""
        return list(dict.fromkeys(dimension for _, _, dimension in self._values))

    def records(self) -> Iterator[Label]:
        """Yield one label per case, repeat and dimension: the median of people's labels."""
        for case, repeat, dimension in self._values:
            value = self.value((case, repeat, dimension))
            if value is not None:
                yield Label(case=case, repeat=repeat, dimension=dimension, value=value)

    def check_dimension(self, dimension: str) -> None:
        """Raise ItemsError unless the dimension has a label."""
        if dimension not in self.dimensions:
            known = ", ".join(self.dimensions) or "nothing"
            hint = suggest(dimension, self.dimensions)
            raise ItemsError(self.source, f'no label of "{dimension}".{hint} Labelled are: {known}')

    def check_attempts(self, attempts: set[tuple[str, int]]) -> None:
        """Raise ItemsError if a label is of an unknown attempt."""
        known = RunAttempts(attempts)
        for (case, repeat, _), number in self._lines.items():
            if missing := known.missing(case, repeat, suggests=not self._problems.full):
                self._problems.at_line(number, missing)
        self._problems.check()


class RunAttempts:
    """The attempts of a run, to which what a file says of attempts must belong.

    Args:
        attempts: Case and repeat of each.
    """

    def __init__(self, attempts: Set[tuple[str, int]]) -> None:
        self._attempts = attempts
        self._cases = {case for case, _ in attempts}

    def missing(self, case: str, repeat: int, *, suggests: bool) -> str | None:
        """What is wrong with a case and repeat that the run does not have; None if it has them.

        Args:
            case: Id of the case.
            repeat: Number of the repeat.
            suggests: Look for the nearest id, which takes long among many.
        """
        if case not in self._cases:
            return f'the run has no case "{case}".{suggest(case, self._cases) if suggests else ""}'
        return (
            None if (case, repeat) in self._attempts else f'the run has no repeat {repeat} of case "{case}"'
        )


def read_calibrator(path: Path) -> "Calibrator":
    """Read a calibrator from a JSON artifact, of this or the original tool.

    Raises:
        ItemsError: If the file does not contain a calibrator.
    """
    from trivium.trust.calibration.calibrator import calibrator_from_json

    try:
        return calibrator_from_json(read_document(path, error=ItemsError, parse=parse_lenient_json))
    except TrustError as error:
        raise ItemsError(str(path), error.problems) from error


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
    names = OtherTools()
    for file in files or [place]:
        if files is not None:
            builder.begin_file(str(file), _word(file))
        for number, item in read_records(file, Item, builder.problem, names=names):
            builder.add(item, number)
    if builder.is_empty:
        raise ItemsError(str(path), "holds no items, expected one a line (or row)")
    return _built(builder, names)


def _built(builder: TableBuilder, names: OtherTools) -> ItemTable:
    """The table; its mistakes are told with the columns that were not read, among which a field may be."""
    notes = names.note(), builder.repeated()
    try:
        return builder.table(notes=tuple(note for note in notes if note))
    except ItemsError as error:
        if not names.unread:
            raise
        unread = Problem("", names.note() or "")
        raise ItemsError(error.source, [*error.problems, unread], left_out=error.left_out) from error


def _word(file: Path) -> str:
    """What a record of a file is called in messages."""
    word: str = FILES.get(file.suffix.lower(), JsonLines).word
    return word


def _read(format: str, path: Path, mode: str | None) -> ItemTable:  # noqa: A002
    module, _, function = FORMATS[format].partition(":")
    table: ItemTable = getattr(import_module(module), function)(path, mode=mode)
    return table
