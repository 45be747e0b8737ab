"""Loads and saves suites in every file format.

Loading returns the parts of a suite, and ``Suite.load`` builds a suite from them: this module does not depend
on ``Suite``.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trivium.errors import MissingExtra, Problem, SuiteError, placed, raise_problems
from trivium.number_buffer import NumberBuffer
from trivium.records.documents import check_is_file, dump_toml, read_document
from trivium.records.source import FILES, WORKBOOK_REFUSED, WORKBOOKS, files_of, name_of
from trivium.records.validation import describe, unknown_key
from trivium.storage import joined, path_of, replaced_when_complete, writable
from trivium.suites.case import NOTHING_EXPECTED, Case, CaseTuple
from trivium.suites.columns import rows_as_cases
from trivium.suites.files.jsonl import CaseFiles, CaseLines, HeldCases, hash_of
from trivium.suites.files.tables import case_lines
from trivium.suites.selection import cases_of
from trivium.suites.settings import Settings
from trivium.suites.settings_loader import (
    OLD_KEYS,
    SETTING_KEYS,
    merge_settings,
    parse_settings,
    read_config,
    replace_old_keys,
)
from trivium.suites.sources import SOURCES, SourceCases, read_source, split_prefix
from trivium.values import json_document, json_text

SUITE_KEYS = ("name", "description", "cases", *SOURCES, "config", *SETTING_KEYS)
DOCUMENTS = (".yaml", ".yml", ".json", ".toml")

_ONE_CASE = frozenset({"id", "input", "question", "references", "answer", "expected", "expect"})
"""Keys of a case; a mapping with one of them and without cases is no suite."""

_NAMES = "trivium.metrics.registry"
"""Module with the names of metrics; loaded by name, because metrics import suites."""


class SuiteParts(NamedTuple):
    """What a suite file holds: the arguments of ``Suite``.

    Attributes:
        name: The suite's name.
        cases: Its cases.
        settings: Its settings.
        description: Purpose of the suite, or None.
        notes: What was left out when the cases were read.
        source: The file, for messages.
    """

    name: str
    cases: Sequence[Case]
    settings: Settings
    description: str | None = None
    notes: tuple[str, ...] = ()
    source: str = ""


def load_parts(source: str | Path, overrides: Mapping[str, Any]) -> SuiteParts:
    """Read a file, or another format with its prefix; see ``Suite.load``."""
    overrides = dict(overrides)
    if (config := overrides.pop("config", None)) is not None:
        overrides = merge_settings(read_config(config), overrides)
    prefix, rest = split_prefix(str(source))
    if prefix is not None:
        return parts_from_dict(merge_settings({prefix: rest}, overrides), source=str(source))
    if files_of(str(source)):
        named = {"name": name_of(str(source)), "cases": str(source)}
        return parts_from_dict(merge_settings(named, overrides), source=str(source))
    path = path_of(str(source))
    prefixes = ", ".join(f"{name}:" for name in SOURCES)
    check_is_file(path, expected=f"expected a file, or the folder with what it holds before it ({prefixes})")
    if path.suffix.lower() not in DOCUMENTS:
        keys = merge_settings({"name": path.stem, "cases": str(path)}, overrides)
        return parts_from_dict(keys, source=str(path))
    raw = read_document(path, of_cases=True)
    if isinstance(raw, list):
        raw = {"cases": raw}
    if not isinstance(raw, dict):
        raise SuiteError(str(path), f"found {describe(raw)}, expected a suite (a mapping) or a list of cases")
    keys = merge_settings({"name": path.stem, **raw}, overrides)
    return parts_from_dict(keys, folder=path.parent, source=str(path))


def parts_from_dict(raw: Mapping[str, Any], *, folder: Path = Path(), source: str = "suite") -> SuiteParts:
    """Read the keys of a suite file; see ``Suite.from_dict``."""
    keys = dict(raw)
    problems: list[Problem] = []
    name = _text(keys, "name", problems)
    description = _text(keys, "description", problems)
    origins = {key: keys.pop(key) for key in ("cases", *SOURCES) if key in keys}
    if not origins and not isinstance(raw.get("config"), str) and _ONE_CASE & keys.keys():
        raise SuiteError(source, "is one case, not a suite: put it in a list, [{…}]")
    config = _config(keys, folder, problems)
    for key in [key for key in keys if key not in {*SETTING_KEYS, *OLD_KEYS}]:
        problems.append(Problem("", unknown_key(str(key), [*SUITE_KEYS, *OLD_KEYS])))
        del keys[key]
    found, elsewhere = None, None
    try:
        found = _read_origin(origins, folder, problems)
    except SuiteError as error:
        elsewhere = error
    if config:
        keys, wrong = replace_old_keys(keys)
        problems += wrong
    settings, wrong = parse_settings(
        merge_settings(merge_settings(found.settings if found else {}, config), keys), folder=folder
    )
    problems += wrong
    if problems or elsewhere is not None:
        problems += _unknown_names(settings)
    _raise(problems, source, elsewhere)
    if found is None or not len(found.cases):
        raise SuiteError(source, "holds no case")
    return SuiteParts(
        name=name or found.name or source,
        cases=found.cases,
        settings=settings,
        description=description,
        notes=found.notes,
        source=source,
    )


def _config(keys: dict[str, Any], folder: Path, problems: list[Problem]) -> dict[str, Any]:
    """Read the raw settings in the file that the key ``config`` names, if any."""
    value = keys.pop("config", None)
    if isinstance(value, str):
        try:
            return read_config(folder / value)
        except SuiteError as error:
            problems += placed(error)
    elif value is not None:
        problems.append(Problem("config", f"found {describe(value)}, expected a file of settings"))
    return {}


def _unknown_names(settings: Settings) -> list[Problem]:
    """List unknown names of metrics, to report them together with the other mistakes of a file.

    In a suite without other mistakes the names are checked when it is run, because a program may define
    metrics after it loads the suite.
    """
    names = import_module(_NAMES)
    try:
        found: list[Problem] = names.unknown_names(settings)
    except SuiteError:
        return []  # an unknown rubric, which is reported already
    return found


def _text(keys: dict[str, Any], key: str, problems: list[Problem]) -> str | None:
    value = keys.pop(key, None)
    if value is None or isinstance(value, str):
        return value
    problems.append(Problem(key, f"found {describe(value)}, expected text"))
    return None


def _raise(problems: list[Problem], source: str, elsewhere: SuiteError | None) -> None:
    """Raise the mistakes of the suite together with those of the files that it names."""
    if elsewhere is None:
        raise_problems(problems, source)
    elif not problems:
        raise elsewhere
    else:
        raise SuiteError(source, [*problems, *placed(elsewhere)], left_out=elsewhere.left_out) from elsewhere


def _read_origin(origins: Mapping[str, Any], folder: Path, problems: list[Problem]) -> SourceCases | None:
    """Read the cases from the key that gives them, and the settings that their source suggests."""
    if len(origins) != 1:
        found = f"has {' and '.join(origins)}" if origins else "has no cases"
        hint = "" if origins else ". Settings alone go with cases: trivium score CASES --config THIS_FILE"
        problems.append(Problem("", f"{found}: expected one of cases, {', '.join(SOURCES)}{hint}"))
        return None
    ((key, raw),) = origins.items()
    if key != "cases":
        if isinstance(raw, str):
            return read_source(key, joined(folder, raw), name=raw)
        problems.append(Problem(key, f"found {describe(raw)}, expected a path"))
    elif isinstance(raw, str):
        files = files_of(raw, folder=folder) or [joined(folder, raw)]
        if len(files) == 1 and files[0].suffix.lower() in DOCUMENTS:
            held = _cases_of_document(files[0])
            return SourceCases("", held.cases, {}, held.notes)
        many = CaseFiles(files, _read_cases)
        return SourceCases("", many, {}, many.notes)
    elif isinstance(raw, list | tuple):
        held, wrong = _cases_of_list(raw, "cases")
        problems += wrong
        return SourceCases("", held.cases, {}, held.notes)
    else:
        problems.append(Problem("cases", f"found {describe(raw)}, expected a list of cases or a file"))
    return None


def _cases_of_list(raw: Sequence[Any], where: str, first: int = 1) -> tuple[HeldCases, list[Problem]]:
    """Convert a list to cases; also returns every mistake."""
    rows, columns = rows_as_cases(raw, first=first)
    if columns is not None and columns.problems:
        return HeldCases(CaseTuple()), [Problem(where, each.what) for each in columns.problems]
    places = [f"{where}[{index}]" for index in range(len(rows))]
    cases, problems = cases_of(zip(places, rows, strict=True))
    return HeldCases(cases, () if columns is None else (columns.note(),), places), problems


def _read_cases(path: Path, first: int, hashes: NumberBuffer[int], alone: bool) -> CaseLines | HeldCases:
    """Read a file that holds only cases; see ``Read``.

    Raises:
        SuiteError: With the mistakes in the file.
    """
    suffix = path.suffix.lower()
    if suffix in FILES:
        return case_lines(path, first, hashes, alone)
    if suffix in DOCUMENTS:
        held = _cases_of_document(path, first)
        for case in held.cases:
            hashes.frombytes(hash_of(case.id))
        return held
    if suffix in WORKBOOKS:
        check_is_file(path)
        raise SuiteError(str(path), WORKBOOK_REFUSED)
    expected = ", ".join((*FILES, *DOCUMENTS))
    raise SuiteError(str(path), f'cannot tell the format from "{path.suffix}": expected {expected}')


def _cases_of_document(path: Path, first: int = 1) -> HeldCases:
    raw = read_document(path, of_cases=True)
    if isinstance(raw, dict) and set(raw) == {"cases"}:
        raw = raw["cases"]
    if not isinstance(raw, list):
        raise SuiteError(str(path), f"found {describe(raw)}, expected a list of cases")
    found, problems = _cases_of_list(raw, "", first)
    raise_problems(problems, str(path))
    return found


def save_parts(suite: SuiteParts, path: Path) -> None:
    """Write a suite; see ``Suite.save``. An existing file is replaced only after everything is written.

    Raises:
        SuiteError: If the extension is not a known format, or the file cannot be written.
    """
    write = WRITERS.get(path.suffix.lower())
    if write is None:
        raise SuiteError(str(path), f'cannot write "{path.suffix}": expected {", ".join(WRITERS)}')
    with writable(path, SuiteError), replaced_when_complete(path) as unfinished:
        write(suite, unfinished)


def _document(suite: SuiteParts) -> dict[str, Any]:
    """Return the keys of a suite file."""
    texts = {"name": suite.name, "description": suite.description}
    keys = {key: value for key, value in texts.items() if value is not None}
    return {
        **keys,
        **msgspec.to_builtins(suite.settings),
        "cases": [msgspec.to_builtins(case) for case in suite.cases],
    }


def _json(suite: SuiteParts, path: Path) -> None:
    path.write_bytes(json_document(_document(suite)))


def _yaml(suite: SuiteParts, path: Path) -> None:
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        # Quoted, because a YAML 1.1 reader does not read an unquoted 012 or no as a text.
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"')

    Dumper.add_representer(str, text)
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(_document(suite), file, Dumper, allow_unicode=True, sort_keys=False, width=110)


def _toml(suite: SuiteParts, path: Path) -> None:
    path.write_text(
        dump_toml(_document(suite), source=f'suite "{suite.name}"'), encoding="utf-8", newline="\n"
    )


def _jsonl(suite: SuiteParts, path: Path) -> None:
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        file.writelines(encoder.encode(case) + b"\n" for case in suite.cases)


def _columns(*as_json: str) -> list[str]:
    """The fields of a case, and for some a further column with their JSON."""
    names = Case.__struct_fields__
    return [column for name in names for column in (name, f"{name}.json")[: 1 + (name in as_json)]]


def _csv(suite: SuiteParts, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, _columns("input", "source"))
        table.writeheader()
        for case in suite.cases:
            row = _row(case)
            if not isinstance(case.input, str) or not case.input:
                row["input.json"] = json_text(row.pop("input"))
            if case.source == "":  # an empty cell means None
                row["source.json"] = json_text(row.pop("source"))
            row |= {name: json_text(row[name]) if row[name] else None for name in _LISTS}
            table.writerow(row)


def _parquet(suite: SuiteParts, path: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as missing:
        raise MissingExtra("parquet", f"writing {path.name}") from missing
    text, texts = pa.string(), pa.list_(pa.string())
    schema = pa.schema({name: texts if name in _LISTS else text for name in _columns("input")})
    with pq.ParquetWriter(path, schema) as table:
        for start in range(0, len(suite.cases), 1024):
            rows = [_row(case) for case in suite.cases[start : start + 1024]]
            for row in rows:
                if not isinstance(row["input"], str):
                    row["input.json"] = json_text(row.pop("input"))
            table.write_batch(pa.RecordBatch.from_pylist(rows, schema))


_LISTS = ("references", "tags")
"""Fields of a case that are lists of texts."""


def _row(case: Case) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(case, name) for name in case.__struct_fields__}
    row["expect"] = json_text(case.expect) if case.expect != NOTHING_EXPECTED else None
    row["turns"] = json_text(case.turns) if case.turns else None
    row["user"] = None if case.user is None else json_text(case.user)
    row["metadata"] = json_text(case.metadata) if case.metadata else None
    return row


WRITERS: dict[str, Callable[[SuiteParts, Path], None]] = {
    ".yaml": _yaml,
    ".yml": _yaml,
    ".json": _json,
    ".toml": _toml,
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".parquet": _parquet,
}
