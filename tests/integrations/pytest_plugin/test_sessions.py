"""Suites as tests: what a user of pytest sees, in sessions of their own, each in an empty folder."""

import os
import tomllib
from importlib import import_module

import pytest

from tests.integrations.pytest_plugin.sessions import (
    ASSERTING_ALL,
    ASSERTING_EACH,
    ROOT,
    asked,
    runs,
    session,
    write_tests,
)
from tests.test_docs import assert_contains, blocks

pytest_plugins = ["pytester"]


def test_every_attempt_is_a_test_of_its_own_in_one_run(folder: pytest.Pytester) -> None:
    write_tests(folder, ASSERTING_EACH + ASSERTING_ALL, mark='"capitals.yaml", agent=agent, repeats=2')

    result = session(folder, "-v")

    result.assert_outcomes(passed=5, failed=4)
    result.stdout.fnmatch_lines(
        [
            "*::test_one[[]fr#0[]] PASSED*",
            "*::test_one[[]fr#1[]] PASSED*",
            "*::test_one[[]la#0[]] FAILED*",
            "*where False = <la did not pass: jaccard 0.000 is under 0.9>.passed",
            "the agent failed: ValueError: never heard of it",
            "capitals*",
            "8 attempts of 4 cases*",
            "*pass rate*0.500*4 of 8 passed*",
        ]
    )
    assert set(asked(folder).values()) == {1}
    assert len(runs(folder)) == 1


def test_the_page_shows_what_comes_out(folder: pytest.Pytester) -> None:
    shown = {block.label or block.language: block.text for block in blocks(ROOT / "docs" / "pytest.md")}
    for name in ("capitals.yaml", "test_capitals.py"):
        folder.path.joinpath(name).write_text(shown[name])

    assert_contains(session(folder).stdout.str(), shown["pytest"])


def test_only_what_is_selected_is_asked(folder: pytest.Pytester) -> None:
    write_tests(folder, ASSERTING_EACH)

    result = session(folder, "-k", "fr or pe", "-q")

    result.assert_outcomes(passed=2, deselected=2)
    result.stdout.fnmatch_lines(["capitals  20*  pass rate 1.000 *, 2 of 2 passed"])

    assert asked(folder) == {"France 0": 1, "Peru 0": 1}


def test_collecting_calls_no_agent(folder: pytest.Pytester) -> None:
    write_tests(folder, ASSERTING_EACH)

    session(folder, "--collect-only", "-q").stdout.fnmatch_lines(["*test_one[[]fr[]]", "*4 tests collected*"])

    assert not asked(folder)


def test_marks_that_say_the_same_share_a_run_and_others_do_not(folder: pytest.Pytester) -> None:
    write_tests(
        folder,
        """
def test_one(trivium_run): pass
@pytest.mark.trivium("capitals.yaml", agent=agent)
def test_two(trivium_run): pass
@pytest.mark.trivium("capitals.yaml", agent=lambda country: "Rome")
def test_three(trivium_run):
    assert trivium_run["jaccard"].value == 0.25
@pytest.mark.trivium("capitals.yaml", agent=lambda country: "Rome", metrics=["cosine"])
def test_four(trivium_run): pass
""",
    )

    session(folder).assert_outcomes(passed=4)

    assert len(runs(folder)) == 3
    assert set(asked(folder).values()) == {1}


def test_a_suite_made_in_python_and_an_agent_from_a_fixture(folder: pytest.Pytester) -> None:
    folder.path.joinpath("test_made.py").write_text("""
import pytest, trivium as tv
SUITE = tv.Suite(name="made", cases=[{"id": "x/y ü", "input": "abc", "references": ["ABC"]}])
pytestmark = pytest.mark.trivium(SUITE, metrics=["jaccard"])
@pytest.fixture(scope="session")
def trivium_agent():
    return str.upper
class TestMade:
    def test_one(self, trivium_attempt):
        assert trivium_attempt.output == "ABC" and trivium_attempt.case.id == "x/y ü"
        assert trivium_attempt["jaccard"] == 1
    def test_all(self, trivium_run):
        assert [attempt.output for attempt in trivium_run.attempts()] == ["ABC"]
""")
    folder.path.joinpath("test_also.py").write_text("""
import pytest
from test_made import SUITE, TestMade as Again
pytestmark = pytest.mark.trivium(SUITE, metrics=["jaccard"])
@pytest.fixture
def trivium_agent():
    return str.lower
def test_all(trivium_run):
    assert [attempt.output for attempt in trivium_run.attempts()] == ["abc"]
""")

    session(folder).assert_outcomes(passed=3)
    assert len(runs(folder)) == 2


def test_an_agent_that_is_named_on_the_command_line_is_asked(folder: pytest.Pytester) -> None:
    write_tests(folder, ASSERTING_ALL, mark='"capitals.yaml"')

    session(folder, "--trivium-agent", "capital_agents:agent").assert_outcomes(passed=1)
    nobody = session(folder)
    unknown = session(folder, "--trivium-agent", "capital_agents:agnet")

    assert sum(asked(folder).values()) == 4
    nobody.stdout.fnmatch_lines(["*there is no agent to call*"])
    unknown.stdout.fnmatch_lines(['*capital_agents:agnet: *Did you mean "agent"*'])


def test_what_the_fixtures_give_has_a_name_for_annotations() -> None:
    package = import_module("trivium.integrations.pytest")

    assert [getattr(package, name).__name__ for name in package.__all__] == ["EvaluatedRun", "TestedAttempt"]
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = package.Nothing


def test_a_session_without_suites_loads_nothing_of_trivium(
    folder: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin is found as pytest finds it: by the entry point that the project declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ((name, module),) = project["entry-points"]["pytest11"].items()
    declared = folder.mkdir("site") / "declared-1.0.dist-info"
    declared.mkdir()
    declared.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: declared\nVersion: 1.0\n")
    declared.joinpath("entry_points.txt").write_text(f"[pytest11]\n{name} = {module}\n")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{declared.parent}")
    folder.makepyfile("""
import sys
def test_modules():
    packages = {name.split(".")[1] for name in sys.modules if name.startswith("trivium.")}
    assert packages == {"_version", "integrations"}
    assert not {"numpy", "msgspec", "sqlalchemy", "rich"} & set(sys.modules)
""")

    result = folder.runpytest_subprocess(
        "-p", "trivium", "-p", "xdist", "-n", "1", "--trivium-policy", "proof"
    )

    result.assert_outcomes(passed=1)
