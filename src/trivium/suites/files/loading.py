"""From a file, a folder or keys to a Suite."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trivium.errors import Problem, SuiteError
from trivium.suites.cases import Cases
from trivium.suites.checking import cases_of, raise_any
from trivium.suites.files.reading import check_is_file, read_document
from trivium.suites.files.tables import read_rows
from trivium.suites.legacy import OLD_KEYS, modern
from trivium.suites.settings import Settings
from trivium.suites.settings_reading import SETTING_KEYS, merged, read_config, settings_of
from trivium.suites.sources.registry import SOURCES, Found, read_source, split_prefix
from trivium.suites.validation import describe, unknown_key

if TYPE_CHECKING:
    from trivium.suites.suite import Suite

S = TypeVar("S", bound="Suite")

SUITE_KEYS = ("name", "description", "cases", *SOURCES, "config", *SETTING_KEYS)
DOCUMENTS = (".yaml", ".yml", ".json", ".toml")
TABLES = (".csv", ".parquet")

_NAMES = "trivium.metrics.names"
"""Knows the names of metrics; named, not imported, because metrics are built on suites."""


def load(cls: type[S], source: str | Path, overrides: Mapping[str, Any]) -> S:
    """See ``Suite.load``."""
    overrides = dict(overrides)
    if (config := overrides.pop("config", None)) is not None:
        overrides = merged(read_config(config), overrides)
    prefix, rest = split_prefix(str(source))
    if prefix is not None:
        return from_dict(cls, merged({prefix: rest}, overrides), source=str(source))
    path = Path(source)
    prefixes = ", ".join(f"{name}:" for name in SOURCES)
    check_is_file(path, expected=f"expected a file, or the folder with what it holds before it ({prefixes})")
    if path.suffix.lower() not in DOCUMENTS:
        keys = merged({"name": path.stem, "cases": str(path)}, overrides)
        return from_dict(cls, keys, source=str(path))
    raw = read_document(path)
    if isinstance(raw, list):
        raw = {"cases": raw}
    if not isinstance(raw, dict):
        raise SuiteError(str(path), f"found {describe(raw)}, expected a suite (a mapping) or a list of cases")
    keys = merged({"name": path.stem, **raw}, overrides)
    return from_dict(cls, keys, folder=path.parent, source=str(path))


def from_dict(cls: type[S], raw: Mapping[str, Any], *, folder: Path = Path(), source: str = "suite") -> S:
    """See ``Suite.from_dict``."""
    keys = dict(raw)
    problems: list[Problem] = []
    name = _text(keys, "name", problems)
    description = _text(keys, "description", problems)
    origins = {key: keys.pop(key) for key in ("cases", *SOURCES) if key in keys}
    config = _config(keys, folder, problems)
    for key in [key for key in keys if key not in {*SETTING_KEYS, *OLD_KEYS}]:
        problems.append(Problem("", unknown_key(str(key), [*SUITE_KEYS, *OLD_KEYS])))
        del keys[key]
    found, elsewhere = None, None
    try:
        found = _found(origins, folder, problems)
    except SuiteError as error:
        elsewhere = error
    if config:
        keys, wrong = modern(keys)
        problems += wrong
    settings, wrong = settings_of(
        merged(merged(found.settings if found else {}, config), keys), folder=folder
    )
    problems += wrong
    if problems or elsewhere is not None:
        problems += _unknown_names(settings)
    _raise(problems, source, elsewhere)
    if found is None or not len(found.cases):
        raise SuiteError(source, "holds no case")
    cases: Any = found.cases
    return cls(
        name=name or found.name or source,
        cases=cases,
        settings=settings,
        description=description,
        notes=found.notes,
        source=source,
    )


def _config(keys: dict[str, Any], folder: Path, problems: list[Problem]) -> dict[str, Any]:
    """The raw settings of the file that the suite builds on, if it names one."""
    value = keys.pop("config", None)
    if isinstance(value, str):
        try:
            return read_config(folder / value)
        except SuiteError as error:
            problems += _placed(error)
    elif value is not None:
        problems.append(Problem("config", f"found {describe(value)}, expected a file of settings"))
    return {}


def _unknown_names(settings: Settings) -> list[Problem]:
    """Names of metrics that no metric has, to be told together with the other mistakes of a file.

    A suite that is right otherwise is asked for them only when it is run: a program may define its own
    metrics after it loaded the suite.
    """
    names = import_module(_NAMES)
    try:
        found: list[Problem] = names.unknown_names(settings)
    except SuiteError:
        return []  # of a rubric that there is not, which is among the mistakes already
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
        raise_any(problems, source)
    elif not problems:
        raise elsewhere
    else:
        raise SuiteError(source, [*problems, *_placed(elsewhere)], left_out=elsewhere.left_out) from elsewhere


def _placed(error: SuiteError) -> list[Problem]:
    """The mistakes of another file, each with its name."""
    return [
        Problem(f"{error.source}: {problem.where}" if problem.where else error.source, problem.what)
        for problem in error.problems
    ]


def _found(origins: Mapping[str, Any], folder: Path, problems: list[Problem]) -> Found | None:
    """The cases where the one key that names them says, and the settings that suit them."""
    if len(origins) != 1:
        found = f"says {' and '.join(origins)}" if origins else "says nowhere what is asked"
        hint = "" if origins else ". Settings alone go with cases: trivium score CASES --config THIS_FILE"
        problems.append(Problem("", f"{found}: expected one of cases, {', '.join(SOURCES)}{hint}"))
        return None
    ((key, raw),) = origins.items()
    if key != "cases":
        if isinstance(raw, str):
            return read_source(key, folder / raw, name=raw)
        problems.append(Problem(key, f"found {describe(raw)}, expected a path"))
    elif isinstance(raw, str):
        return Found("", read_cases(folder / raw), {})
    elif isinstance(raw, list | tuple):
        cases, wrong = cases_of((f"cases[{index}]", one) for index, one in enumerate(raw))
        problems += wrong
        return Found("", cases, {})
    else:
        problems.append(Problem("cases", f"found {describe(raw)}, expected a list of cases or a file"))
    return None


def read_cases(path: Path) -> Cases:
    """The cases of a file that holds nothing else."""
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        from trivium.suites.files.case_file import CaseFile

        return CaseFile(path)
    if suffix in TABLES:
        cases, problems = cases_of(read_rows(path))
        raise_any(problems, str(path))
        return cases
    if suffix not in DOCUMENTS:
        expected = ", ".join((".jsonl", *TABLES, *DOCUMENTS))
        raise SuiteError(str(path), f'cannot tell the format from "{path.suffix}": expected {expected}')
    raw = read_document(path)
    if isinstance(raw, dict) and set(raw) == {"cases"}:
        raw = raw["cases"]
    if not isinstance(raw, list):
        raise SuiteError(str(path), f"found {describe(raw)}, expected a list of cases")
    cases, problems = cases_of((f"[{index}]", one) for index, one in enumerate(raw))
    raise_any(problems, str(path))
    return cases
