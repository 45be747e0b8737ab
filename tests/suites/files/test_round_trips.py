"""What is saved is what is loaded, in every format."""

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

from tests.strategies import suites
from trivium.errors import SuiteError
from trivium.suites.suite import Suite

quick = settings(max_examples=30)


def saved_and_loaded(suite: Suite, ending: str) -> Suite:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"cases{ending}"
        suite.save(path)
        return Suite.load(path)


def has_null(value) -> bool:
    if isinstance(value, dict):
        return has_null(list(value.values()))
    return value is None or (isinstance(value, list | tuple) and any(map(has_null, value)))


@pytest.mark.parametrize("ending", [".json", ".yaml", ".yml"])
@quick
@given(suite=suites())
def test_a_document_gives_back_the_whole_suite(ending, suite):
    assert saved_and_loaded(suite, ending) == suite


@quick
@given(suite=suites())
def test_a_toml_file_gives_back_the_whole_suite_or_says_what_toml_cannot(suite):
    if has_null([msgspec.to_builtins(case) for case in suite]):
        with pytest.raises(SuiteError, match="is null, which TOML does not have"):
            saved_and_loaded(suite, ".toml")
    else:
        assert saved_and_loaded(suite, ".toml") == suite


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
@quick
@given(suite=suites())
def test_lines_and_tables_give_back_the_cases(ending, suite):
    back = saved_and_loaded(suite, ending)
    assert list(back) == list(suite)
    assert back.digest == suite.digest
    assert back.name == "cases"
