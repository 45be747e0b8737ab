"""The example that is tested with pytest passes its own tests, alone and against the run before."""

from importlib import import_module
from pathlib import Path

import pytest

import trivium as tv

pytest_plugins = ["pytester"]

FOLDER = Path(__file__).parents[2] / "examples" / "converter"
PLUGIN = ("-p", "trivium.integrations.pytest.plugin", "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No other plugins, a store of its own, and everything imported that pytester would forget again."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("TRIVIUM_STORE", str(tmp_path / "store.db"))
    import_module("trivium.integrations.pytest.summary")
    suite = tv.Suite.load(FOLDER / "suite.yaml").sample(1, seed=1)
    assert str(tv.evaluate(suite, agent=str.upper, store=str(tmp_path / "other.db")).summary())


def test_its_tests_pass_and_are_compared_with_the_run_before(pytester: pytest.Pytester) -> None:
    first = pytester.runpytest_inprocess(*PLUGIN, str(FOLDER))
    first.assert_outcomes(passed=25)
    first.stdout.fnmatch_lines(["converter*", "*pass*pass_rate ≥ 0.8*", "*pass rate*1.000*24 of 24 passed*"])

    second = pytester.runpytest_inprocess(*PLUGIN, "--trivium-compare", "previous", str(FOLDER))
    assert second.ret == 0
    second.stdout.fnmatch_lines(["*compared with 20*: pass*", "*The outputs are the same.*"])


def test_an_answer_that_is_wrong_is_found(pytester: pytest.Pytester) -> None:
    for file in FOLDER.glob("*.*"):
        text = file.read_text().replace('"hour": 3600', '"hour": 3000')
        pytester.path.joinpath(file.name).write_text(text)

    result = pytester.runpytest_inprocess(*PLUGIN)

    result.assert_outcomes(failed=3, passed=22)  # 21 of 24 may still be 0.8 and more
    result.stdout.fnmatch_lines(["E*<1 week in hours did not pass: *"])
