"""What users of the plugin get wrong is told without a traceback."""

import pytest

from tests.integrations.pytest_plugin.sessions import ASSERTING_EACH, asked, session, write_tests

pytest_plugins = ["pytester"]


def test_mistakes_of_a_suite_are_reported_without_a_traceback(folder: pytest.Pytester) -> None:
    folder.path.joinpath("capitals.yaml").write_text("name: x\nmetrcs: []\ncases: [{id: a, inpt: b}]\n")
    write_tests(folder, ASSERTING_EACH)

    result = session(folder)

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(['*capitals.yaml: *metrcs*Did you mean "metrics"*', "*cases[[]0[]]*inpt*"])
    assert "Traceback" not in result.stdout.str()
    assert "Error:" not in result.stdout.str()


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ("", "takes one suite; found 0 arguments"),
        ('"capitals.yaml", agent=agent, outputs="x.jsonl"', "takes an agent or outputs, not both"),
        ('"none.yaml"', "none.yaml: *"),
    ],
)
def test_a_wrong_mark_is_reported_without_a_traceback(folder: pytest.Pytester, mark: str, says: str) -> None:
    write_tests(folder, ASSERTING_EACH, mark=mark)

    result = session(folder)

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"*{says}*"])
    assert "Traceback" not in result.stdout.str()


def test_a_fixture_without_its_mark_says_what_it_needs(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_bare="def test_run(trivium_run): pass")
    session(folder).stdout.fnmatch_lines(["*trivium_run needs @pytest.mark.trivium(suite)*"])

    folder.makepyfile(test_bare="def test_one(trivium_attempt): pass")
    session(folder).stdout.fnmatch_lines(["*the fixture trivium_attempt needs @pytest.mark.trivium(suite)*"])


def test_outputs_that_lack_a_case_fail_its_test(folder: pytest.Pytester) -> None:
    folder.path.joinpath("answers.jsonl").write_text('{"case": "fr", "output": "Paris"}\n')
    write_tests(folder, ASSERTING_EACH, mark='"capitals.yaml", outputs="answers.jsonl"')

    result = session(folder)

    result.assert_outcomes(passed=1, errors=3)
    result.stdout.fnmatch_lines(["run * has no attempt of pe, repeat 0"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--trivium-compare", "x"], "--trivium-compare x: *there is no store yet*"),
        (["--trivium-resume", "previous"], "--trivium-resume previous: *there is no store yet*"),
        (["--trivium-policy", "maybe"], '--trivium-policy: found "maybe", expected balanced, proof, strict'),
    ],
)
def test_a_wrong_option_is_refused_before_anybody_is_asked(
    folder: pytest.Pytester, options: list[str], says: str
) -> None:
    write_tests(folder, ASSERTING_EACH)

    result = session(folder, *options)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {says}"])
    assert not asked(folder)
