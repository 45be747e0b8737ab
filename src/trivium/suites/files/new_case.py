"""Adds a case to the file that holds the cases of a suite, whose comments, order and line ends stay.

The file is changed as a text: in YAML the case follows the last one of the list, in JSON it comes before the
bracket that ends it, in JSON lines it is the last line. What comes out is read again and compared with what
was there, so that a file of an unforeseen form is refused rather than damaged.
"""

import difflib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trivium.errors import SuiteError
from trivium.records.documents import PARSERS, read_document, read_text, readable
from trivium.storage import joined, path_of, replaced_when_complete, writable
from trivium.values import JsonObject

if TYPE_CHECKING:  # imported where a file is changed
    import yaml

_LINES = frozenset({".jsonl", ".ndjson"})
_YAML = frozenset({".yaml", ".yml"})
_KINDS = ".yaml, .json or .jsonl"

_UNREADABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that YAML needs escaped, beside those that JSON does; JSON may have them escaped."""


_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class ChangedFile(NamedTuple):
    """A file with a further case.

    Attributes:
        path: The file.
        before: Its text.
        after: Its text with the case.
    """

    path: Path
    before: str
    after: str

    def diff(self) -> str:
        """What changes, as a unified diff."""
        name = str(self.path)
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True), self.after.splitlines(keepends=True), name, name
        )
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )

    def write(self) -> None:
        """Write the file. It keeps its permissions, and is replaced once the new one is complete.

        Raises:
            SuiteError: If it was changed in the meantime, or cannot be written.
        """
        there = self.path.exists()
        if (_text_of(self.path) if there else "") != self.before:
            raise SuiteError(str(self.path), "was changed in the meantime: nothing was written")
        with writable(self.path, SuiteError), replaced_when_complete(self.path) as unfinished:
            unfinished.write_text(self.after, encoding="utf-8", newline="")
            if there:
                unfinished.chmod(self.path.stat().st_mode)


def yaml_of_case(case: JsonObject, remarks: Sequence[str] = ()) -> str:
    """Write a case as an item of a YAML list.

    Args:
        case: Its keys, in the order in which they are written.
        remarks: Lines that follow as comments.
    """
    lines: list[str] = []
    for key, value in case.items():
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            lines += [f"{key}:", *(f"  - {_flow(each)}" for each in value)]
        else:
            lines.append(f"{key}: {_flow(value)}")
    lines += [f"# {line}".rstrip() for line in remarks]
    return "".join(f"{'  ' if number else '- '}{line}\n" for number, line in enumerate(lines))


def _flow(value: Any) -> str:
    """A value on one line, as JSON, which YAML reads too."""
    text = json.dumps(value, ensure_ascii=False)
    return _UNREADABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def add_case(suite: str | Path, case: JsonObject, remarks: Sequence[str] = ()) -> ChangedFile:
    """Add a case to the cases of a suite; nothing is written yet.

    Args:
        suite: The file of the suite, or of its cases.
        case: The keys of the case.
        remarks: Lines that follow as comments, where the file's format has any.

    Raises:
        SuiteError: If the file cannot be read, is of another format, or its cases come from elsewhere.
    """
    path, keyed = _file_of_cases(path_of(suite))
    before = _text_of(path)
    suffix = path.suffix.lower()
    if suffix in _LINES:
        return _with_line(path, before, case)
    item = yaml_of_case(case, remarks)
    after = _in_document(before, case, item, keyed=keyed, source=str(path), as_yaml=suffix in _YAML)
    with readable(path, SuiteError):
        there, now = (PARSERS[suffix](text.removeprefix("\ufeff")) for text in (before, after))
    there = there | {"cases": [*there["cases"], case]} if keyed else [*there, case]
    if now != there:
        raise SuiteError(str(path), "the case cannot be added without changing other parts: add it by hand")
    return ChangedFile(path, before, after)


def add_line(file: str | Path, value: JsonObject) -> ChangedFile:
    """Add a line to a file of JSON lines, which may not be there yet; nothing is written yet.

    Raises:
        SuiteError: If the file cannot be read, or its name says that it is of another format.
    """
    path = path_of(file)
    if path.suffix.lower() not in _LINES:
        raise SuiteError(str(path), f'found "{path.suffix}", expected a file of JSON lines: .jsonl')
    return _with_line(path, _text_of(path) if path.exists() else "", value)


def _with_line(path: Path, before: str, value: JsonObject) -> ChangedFile:
    end = _line_end(before)
    missing = end if before and not before.endswith("\n") else ""
    return ChangedFile(path, before, f"{before}{missing}{_flow(value)}{end}")


def _text_of(path: Path) -> str:
    """The text of a file, with its own line ends."""
    read_text(path)  # it names what is no text
    return path.read_bytes().decode("utf-8")


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _file_of_cases(path: Path) -> tuple[Path, bool]:
    """The file that holds the cases, and whether they are under its key ``cases``.

    Raises:
        SuiteError: If they are in a file of another format, in several, or in another tool's data.
    """
    suffix = path.suffix.lower()
    if suffix in _LINES:
        return path, False
    if suffix not in _YAML and suffix != ".json":
        what = f"a case can be added to a file that ends in {_KINDS}: add it by hand"
        raise SuiteError(str(path), what)
    raw = read_document(path)
    if isinstance(raw, list):
        return path, False
    cases = raw.get("cases") if isinstance(raw, dict) else None
    if isinstance(cases, list):
        return path, True
    if isinstance(cases, str):
        elsewhere = joined(path.parent, cases)
        if elsewhere.is_file() and elsewhere != path:
            return _file_of_cases(elsewhere)
        raise SuiteError(
            str(path), f'its cases are in "{cases}", which is not one file: name the one to add to'
        )
    raise SuiteError(str(path), "it has no list of cases of its own: name the file to add the case to")


def _in_document(text: str, case: JsonObject, item: str, *, keyed: bool, source: str, as_yaml: bool) -> str:
    """The text of a document with a further item in its list of cases."""
    import yaml

    text_of_spaces = text if as_yaml else text.replace("\t", " ")
    try:
        root: Any = yaml.compose(text_of_spaces, Loader=yaml.SafeLoader)
    except yaml.YAMLError as wrong:
        raise SuiteError(source, f"its places cannot be told: {wrong}") from wrong
    end = len(text)
    cases = root
    if keyed:
        cases = next(value for key, value in root.value if key.value == "cases")
        later = [
            key.start_mark.index for key, _ in root.value if key.start_mark.index > cases.start_mark.index
        ]
        end = min([_line_start(text, index) for index in later], default=end)
    if not isinstance(cases, yaml.SequenceNode):
        raise SuiteError(source, "its cases are no list")
    if cases.flow_style:
        return _in_brackets(text, cases, case)
    column = cases.start_mark.column
    place = _after_last(text, _line_start(text, cases.value[-1].start_mark.index), end, column)
    line_end = _line_end(text)
    indented = [f"{' ' * column}{line}" for line in item.splitlines()]
    head = text[:place]
    if not head.endswith("\n"):
        head += line_end
    return f"{head}{line_end.join(indented)}{line_end}{text[place:]}"


def _in_brackets(text: str, cases: "yaml.SequenceNode", case: JsonObject) -> str:
    """Insert a case before the bracket that ends a list, on a line of its own where the others are."""
    close = cases.end_mark.index - 1
    own = _flow(case)
    if not cases.value:
        return f"{text[:close]}{own}{text[close:]}"
    last = cases.value[-1]
    start, end = last.start_mark.index, last.end_mark.index
    line = text[_line_start(text, start) : start]
    separator = f",{_line_end(text)}{line}" if not line.strip() and line != text[:start] else ", "
    return f"{text[:end]}{separator}{own}{text[end:]}"


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _after_last(text: str, start: int, end: int, column: int) -> int:
    """Where the last item of a list ends: before what is blank, or a comment that stands further left.

    Args:
        text: The document.
        start: Where the line of its last item begins.
        end: Where the line of what follows the list begins.
        column: The column of the items.
    """
    place = start
    for found in _LINE.finditer(text, start, end):
        line = found[0]
        stripped = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        own = not stripped.startswith("#") or indent > column or indent == column > 0
        if stripped and own and not line.startswith(("---", "...")):
            place = found.end()
    return place
