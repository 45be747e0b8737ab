"""Settings as keywords of ``evaluate`` replace those of the suite."""

from pathlib import Path
from typing import Any

import pytest

from trivium.errors import SuiteError
from trivium.runs.evaluate import evaluate
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

CASES = [{"id": "a", "input": "1 + 1?", "references": ["2"], "group": "g"}]


def settings_of(source: Any, **given: Any) -> Settings:
    run = evaluate(
        source, agent=lambda question: "It is 2.", metrics=["success"], store="sqlite:///s.db", **given
    )
    return run.record.settings


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("success", {"exact": True}),
        ("passed", {"metric": "jaccard", "at_least": 0.25}),
        ("judge", {"samples": 2}),
        ("gates", {"success": {"at_least": 0.5}}),
        ("similarity", {"jaccard": 1.0}),
        ("encoder", "e"),
        ("group", "id"),
        ("repeats", 2),
        ("seed", 7),
    ],
)
def test_each_reaches_the_run(name: str, value: Any) -> None:
    found = settings_of(CASES, **{name: value})
    expected = Suite(name="s", cases=CASES).with_settings(**{name: value}).settings  # type: ignore[arg-type]
    assert getattr(found, name) == getattr(expected, name)
    assert getattr(found, name) != getattr(Settings(), name)


def test_they_decide_the_result_and_replace_those_of_a_suite() -> None:
    suite = Suite.load(CASES, success={"exact": True})
    run = evaluate(suite, agent=lambda question: "It is 2.", metrics=["success"])
    assert run.summary().metrics["success"].mean == 0
    run = evaluate(suite, agent=lambda question: "It is 2.", metrics=["success"], success={"contains": "any"})
    assert run.summary().metrics["success"].mean == 1


def test_a_wrong_one_is_named() -> None:
    with pytest.raises(SuiteError, match='success: unknown key "contain". Did you mean "contains"'):
        settings_of(CASES, success={"contain": "any"})
