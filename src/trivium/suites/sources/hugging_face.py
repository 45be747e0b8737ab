"""Data sets of Hugging Face as suites: ``hf:FOLDER``, ``hf:FILE.arrow`` or ``hf:NAME`` of the hub.

After a question mark stand the split, the configuration and which column is what:
``hf:squad?split=validation&input=question&references=answers``. No code of a data set is ever run.
"""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from trivium.errors import MissingExtra, Problem, SuiteError, suggest
from trivium.suites.sources.registry import Found
from trivium.suites.sources.rows import cases_from_rows, columns_of

_OPTIONS = ("split", "config")
_BINARY = frozenset({"Image", "Audio", "Video", "Pdf"})
"""Kinds of columns that are left out, undecoded."""


def read(path: Path) -> Found:
    """A data set as cases.

    Raises:
        SuiteError: If it cannot be had, has several splits and none is named, or a row is no case.
        MissingExtra: If ``datasets`` is not installed.
    """
    name, _, query = str(path).partition("?")
    said = dict(parse_qsl(query))
    options = {key: said.pop(key) for key in _OPTIONS if key in said}
    try:
        import datasets
    except ImportError:
        raise MissingExtra("hf", f'the data set "{name}"') from None
    try:
        loaded = _loaded(datasets, Path(name), options)
    except SuiteError:
        raise
    except Exception as error:  # the library raises whatever went wrong below it
        raise SuiteError(name, f"cannot be loaded: {_first_line(error)}") from error
    if isinstance(loaded, dict):
        loaded = _split(loaded, options.get("split"), name)
    known = [column for column, kind in loaded.features.items() if type(kind).__name__ not in _BINARY]
    columns = columns_of(known, said, source=name)
    cases = cases_from_rows(loaded.select_columns(known), columns, source=name)
    return Found(Path(name).stem, cases, {})


def _loaded(datasets: Any, path: Path, options: dict[str, str]) -> Any:
    if path.suffix == ".arrow" and path.is_file():
        return datasets.Dataset.from_file(str(path), in_memory=True)
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        return datasets.load_from_disk(str(path), keep_in_memory=True)
    if path.is_file():
        raise SuiteError(str(path), "expected a folder, an .arrow file, or the name of a data set on the hub")
    return datasets.load_dataset(str(path), name=options.get("config"))


def _split(splits: dict[str, Any], wanted: str | None, source: str) -> Any:
    if wanted is None and len(splits) == 1:
        return next(iter(splits.values()))
    if wanted in splits:
        return splits[wanted]
    found = "has several splits" if wanted is None else f'has no split "{wanted}".{suggest(wanted, splits)}'
    raise SuiteError(
        source, Problem("split", f"{found}: say one of {', '.join(splits)}, as in {source}?split=…")
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
