"""From a file, a folder or keys to a Suite."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trivium.errors import Problem, SuiteError
from trivium.suites.cases import Cases
from trivium.suites.checking import cases_of, raise_any
from trivium.suites.files.reading import read_document
from trivium.suites.files.tables import read_rows
from trivium.suites.legacy import OLD_KEYS
from trivium.suites.settings_reading import SETTING_KEYS, merged, settings_of
from trivium.suites.sources.registry import SOURCES, read_source, split_prefix
from trivium.suites.validation import describe, unknown_key

if TYPE_CHECKING:
    from trivium.suites.suite import Suite

S = TypeVar("S", bound="Suite")

SUITE_KEYS = ("name", "description", "cases", *SOURCES, *SETTING_KEYS)
DOCUMENTS = (".yaml", ".yml", ".json", ".toml")
TABLES = (".csv", ".parquet")


def load(cls: type[S], source: str | Path, overrides: Mapping[str, Any]) -> S:
    """See ``Suite.load``."""
    prefix, rest = split_prefix(str(source))
    if prefix is not None:
        return from_dict(cls, {prefix: rest, **overrides}, source=str(source))
    path = Path(source)
    if path.suffix.lower() in DOCUMENTS:
        raw = read_document(path)
        if isinstance(raw, list):
            raw = {"cases": raw}
        if not isinstance(raw, dict):
            raise SuiteError(
                str(path), f"found {describe(raw)}, expected a suite (a mapping) or a list of cases"
            )
        keys = merged({"name": path.stem, **raw}, overrides)
        return from_dict(cls, keys, folder=path.parent, source=str(path))
    return from_dict(cls, {"name": path.stem, "cases": str(path), **overrides}, source=str(path))


def from_dict(cls: type[S], raw: Mapping[str, Any], *, folder: Path = Path(), source: str = "suite") -> S:
    """See ``Suite.from_dict``."""
    keys = dict(raw)
    problems: list[Problem] = []
    heads: dict[str, str | None] = {"name": None, "description": None}
    for head in heads:
        value = keys.pop(head, None)
        if value is None or isinstance(value, str):
            heads[head] = value
        else:
            problems.append(Problem(head, f"found {describe(value)}, expected text"))
    origins = [key for key in ("cases", *SOURCES) if key in keys]
    where = {key: keys.pop(key) for key in origins}
    known = {*SETTING_KEYS, *OLD_KEYS, "passed"}
    for key in [key for key in keys if key not in known]:
        problems.append(Problem("", unknown_key(str(key), SUITE_KEYS)))
        del keys[key]
    defaults: dict[str, Any] = {}
    cases: Cases | None = None
    name = heads["name"]
    if len(origins) != 1:
        found = f"says {' and '.join(origins)}" if origins else "says nowhere what is asked"
        problems.append(Problem("", f"{found}: expected one of cases, {', '.join(SOURCES)}"))
    elif origins[0] == "cases":
        cases = _cases(where["cases"], folder, problems)
    elif not isinstance(where[origins[0]], str):
        problems.append(Problem(origins[0], f"found {describe(where[origins[0]])}, expected a path"))
    else:
        found_there = read_source(origins[0], folder / where[origins[0]])
        cases, defaults, name = found_there.cases, found_there.settings, name or found_there.name
    settings, wrong = settings_of(merged(defaults, keys))
    problems += wrong
    raise_any(problems, source)
    if cases is None or not len(cases):
        raise SuiteError(source, "holds no case")
    return cls(name=name or source, cases=cases, settings=settings, description=heads["description"])  # type: ignore[arg-type]


def _cases(raw: Any, folder: Path, problems: list[Problem]) -> Cases | None:
    """The cases that the key ``cases`` means: a list of them, or a file."""
    if isinstance(raw, str):
        return read_cases(folder / raw)
    if not isinstance(raw, list | tuple):
        problems.append(Problem("cases", f"found {describe(raw)}, expected a list of cases or a file"))
        return None
    cases, wrong = cases_of((f"cases[{index}]", one) for index, one in enumerate(raw))
    problems += wrong
    return cases


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
