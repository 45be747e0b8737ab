"""Loads and saves suites in every file format."""

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trivium.errors import MissingExtra, Problem, SuiteError, placed, raise_problems
from trivium.records.documents import PARSERS, check_is_file, dump_toml, read_document
from trivium.records.source import files_of, name_of
from trivium.records.validation import describe, unknown_key
from trivium.storage import joined, path_of, replaced_when_complete, writable
from trivium.suites.case import NOTHING_EXPECTED, Case
from trivium.suites.files.jsonl import CaseFiles
from trivium.suites.files.tables import Rows, opened_cases, rows_of_document, rows_of_list
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
from trivium.suites.sources.in_memory import suite_keys
from trivium.values import JsonObject, json_document, json_text

S = TypeVar("S")
"""A suite, which this module makes from its parts without knowing its class."""

ReadsList = Callable[[Sequence[Any], str], tuple[Rows, list[Problem]]]
"""Reads a list of raw cases at a place, and lists ambiguous keys."""

SUITE_KEYS = ("name", "description", "cases", *SOURCES, "config", *SETTING_KEYS)

_ONE_CASE = frozenset({"id", "input", "question", "references", "answer", "expected", "expect"})
"""Keys of a case; a mapping with one of them and without cases is no suite."""

_NAMES = "trivium.metrics.registry"
"""Module with the names of metrics; loaded by name, because metrics import suites."""


def load_suite(kind: Callable[..., S], source: Any, overrides: Mapping[str, Any]) -> S:
    """Load a suite; ``overrides`` are the keys of a suite file, and ``config``. See ``Suite.load``."""
    overrides = dict(overrides)
    if (config := overrides.pop("config", None)) is not None:
        overrides = merge_settings(read_config(config), overrides)
    if isinstance(source, str | PathLike):
        return _of_file(kind, str(source), overrides)
    keys, table = suite_keys(source)
    listed = partial(rows_of_list, first=0, lenient=table)
    return suite_of(kind, merge_settings(keys, overrides), listed=listed)


def _of_file(kind: Callable[..., S], source: str, overrides: Mapping[str, Any]) -> S:
    """Load a suite from a file, a folder or another format with its prefix."""
    prefix, rest = split_prefix(source)
    if prefix is not None:
        return suite_of(kind, merge_settings({prefix: rest}, overrides), source=source)
    if files_of(source):
        named = {"name": name_of(source), "cases": source}
        return suite_of(kind, merge_settings(named, overrides), source=source)
    path = path_of(source)
    prefixes = ", ".join(f"{name}:" for name in SOURCES)
    check_is_file(path, expected=f"expected a file, or the folder with what it holds before it ({prefixes})")
    if path.suffix.lower() not in PARSERS:
        keys = merge_settings({"name": path.stem, "cases": str(path)}, overrides)
        return suite_of(kind, keys, source=str(path))
    raw = read_document(path, of_cases=True)
    if isinstance(raw, list):
        raw = {"cases": raw}
    if not isinstance(raw, dict):
        raise SuiteError(str(path), f"found {describe(raw)}, expected a suite (a mapping) or a list of cases")
    keys = merge_settings({"name": path.stem, **raw}, overrides)
    return suite_of(kind, keys, folder=path.parent, source=str(path))


def suite_of(
    kind: Callable[..., S],
    raw: Mapping[str, Any],
    *,
    folder: Path = Path(),
    source: str = "suite",
    listed: ReadsList = rows_of_list,
) -> S:
    """Make a suite from the keys of a suite file; see ``Suite.from_dict``. ``listed`` reads a list."""
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
        found = _read_origin(origins, folder, listed, problems)
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
    return kind(
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


def _read_origin(
    origins: Mapping[str, Any], folder: Path, listed: ReadsList, problems: list[Problem]
) -> SourceCases | None:
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
        if len(files) == 1 and files[0].suffix.lower() in PARSERS:
            rows, notes = rows_of_document(files[0])
            cases, wrong = cases_of(rows)
            raise_problems(wrong, str(files[0]))
            return SourceCases("", cases, {}, notes)
        many = CaseFiles(files, opened_cases)
        return SourceCases("", many, {}, many.notes)
    elif isinstance(raw, list | tuple):
        (rows, notes), ambiguous = listed(raw, "cases")
        cases, wrong = cases_of(rows)
        problems += ambiguous + wrong
        return SourceCases("", cases, {}, notes)
    else:
        problems.append(Problem("cases", f"found {describe(raw)}, expected a list of cases or a file"))
    return None


def save_suite(
    path: Path, cases: Sequence[Case], settings: Settings, *, name: str, description: str | None
) -> None:
    """Write a suite; see ``Suite.save``. An existing file is replaced only after everything is written.

    Raises:
        SuiteError: If the extension is not a known format, or the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in WRITERS:
        raise SuiteError(str(path), f'cannot write "{path.suffix}": expected {", ".join(WRITERS)}')
    with writable(path, SuiteError), replaced_when_complete(path) as unfinished:
        if suffix in PARSERS:
            texts = {"name": name} if description is None else {"name": name, "description": description}
            keys = {**texts, **msgspec.to_builtins(settings), "cases": [*map(msgspec.to_builtins, cases)]}
            WRITERS[suffix](keys, unfinished)
        else:
            WRITERS[suffix](cases, unfinished)


def _json(keys: JsonObject, path: Path) -> None:
    path.write_bytes(json_document(keys))


def _yaml(keys: JsonObject, path: Path) -> None:
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        # Quoted, because a YAML 1.1 reader does not read an unquoted 012 or no as a text.
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"')

    Dumper.add_representer(str, text)
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(keys, file, Dumper, allow_unicode=True, sort_keys=False, width=110)


def _toml(keys: JsonObject, path: Path) -> None:
    text = dump_toml(keys, source=f'suite "{keys["name"]}"')
    path.write_text(text, encoding="utf-8", newline="\n")


def _jsonl(cases: Sequence[Case], path: Path) -> None:
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        file.writelines(encoder.encode(case) + b"\n" for case in cases)


def _columns(*as_json: str) -> list[str]:
    """The fields of a case, and for some a further column with their JSON."""
    names = Case.__struct_fields__
    return [column for name in names for column in (name, f"{name}.json")[: 1 + (name in as_json)]]


def _csv(cases: Sequence[Case], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, _columns("input", "source"))
        table.writeheader()
        for case in cases:
            row = _row(case)
            if not isinstance(case.input, str) or not case.input:
                row["input.json"] = json_text(row.pop("input"))
            if case.source == "":  # an empty cell means None
                row["source.json"] = json_text(row.pop("source"))
            row |= {name: json_text(row[name]) if row[name] else None for name in _LISTS}
            table.writerow(row)


def _parquet(cases: Sequence[Case], path: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as missing:
        raise MissingExtra("parquet", f"writing {path.name}") from missing
    text, texts = pa.string(), pa.list_(pa.string())
    schema = pa.schema({name: texts if name in _LISTS else text for name in _columns("input")})
    with pq.ParquetWriter(path, schema) as table:
        for start in range(0, len(cases), 1024):
            rows = [_row(case) for case in cases[start : start + 1024]]
            for row in rows:
                if not isinstance(row["input"], str):
                    row["input.json"] = json_text(row.pop("input"))
            table.write_batch(pa.RecordBatch.from_pylist(rows, schema))


_LISTS = ("references", "tags")
"""Fields of a case that are lists of texts."""


def _row(case: Case) -> dict[str, Any]:
    row = {name: getattr(case, name) for name in case.__struct_fields__}
    for name in ("expect", "turns", "user", "metadata"):
        row[name] = json_text(row[name]) if row[name] and row[name] != NOTHING_EXPECTED else None
    return row


WRITERS: dict[str, Callable[[Any, Path], None]] = {
    ".yaml": _yaml,
    ".yml": _yaml,
    ".json": _json,
    ".toml": _toml,
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".parquet": _parquet,
}
"""Writes the keys of a suite file, or its cases alone, by suffix."""
