"""From a file, a folder or keys to a Suite."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trivium.errors import Problem, SuiteError
from trivium.suites.cases import Cases
from trivium.suites.checking import cases_of, raise_any
from trivium.suites.files.reading import check_is_file, read_document
from trivium.suites.files.tables import read_rows
from trivium.suites.legacy import OLD_KEYS
from trivium.suites.settings_reading import SETTING_KEYS, merged, settings_of
from trivium.suites.sources.registry import SOURCES, Found, read_source, split_prefix
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
    for key in [key for key in keys if key not in {*SETTING_KEYS, *OLD_KEYS}]:
        problems.append(Problem("", unknown_key(str(key), SUITE_KEYS)))
        del keys[key]
    found, elsewhere = None, None
    try:
        found = _found(origins, folder, problems)
    except SuiteError as error:
        elsewhere = error
    settings, wrong = settings_of(merged(found.settings if found else {}, keys), folder=folder)
    _raise(problems + wrong, source, elsewhere)
    if found is None or not len(found.cases):
        raise SuiteError(source, "holds no case")
    cases: Any = found.cases
    return cls(
        name=name or found.name or source,
        cases=cases,
        settings=settings,
        description=description,
        notes=found.notes,
    )


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
        there = [Problem(f"{elsewhere.source}: {p.where}" if p.where else elsewhere.source, p.what)
                 for p in elsewhere.problems]  # fmt: skip
        raise SuiteError(source, [*problems, *there], left_out=elsewhere.left_out) from elsewhere


def _found(origins: Mapping[str, Any], folder: Path, problems: list[Problem]) -> Found | None:
    """The cases where the one key that names them says, and the settings that suit them."""
    if len(origins) != 1:
        found = f"says {' and '.join(origins)}" if origins else "says nowhere what is asked"
        problems.append(Problem("", f"{found}: expected one of cases, {', '.join(SOURCES)}"))
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
