"""Suites as tests: what a user of pytest sees, in sessions of their own, each in an empty folder."""

import os
import tomllib
from collections import Counter
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from xml.etree import ElementTree

import pytest

import trivium as tv
from tests.test_docs import assert_comes_out, blocks
from trivium.integrations.pytest.one_at_a_time import one_at_a_time

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
PLUGIN = ("-p", "trivium.integrations.pytest.plugin", "-p", "no:cacheprovider")

SUITE = """
name: capitals
metrics: [jaccard, success]
success: {metric: jaccard, at_least: 0.9}
composite: {weights: {success: 1}}
cases:
  - {id: fr, input: France, references: [Paris]}
  - {id: pe, input: Peru, references: [Lima]}
  - {id: la, input: Laos, references: [Vientiane]}
  - {id: it, input: Italy, references: [Rome]}
"""
AGENT = """
def agent(country, *, repeat=0):
    with open("asked.txt", "a") as file:
        file.write(f"{country} {repeat}\\n")
    if country == "Italy":
        raise ValueError("never heard of it")
    return {"France": "Paris", "Peru": "Lima"}.get(country, "Nowhere")
"""


@pytest.fixture(scope="module", autouse=True)
def _imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import what a session needs before it: pytester forgets what a session imports, NumPy forbids that."""
    import_module("trivium.integrations.pytest.ending")
    place = tmp_path_factory.mktemp("imported")
    place.joinpath("capitals.yaml").write_text(SUITE)
    run = tv.evaluate(place / "capitals.yaml", agent=str.upper, store=str(place / "store.db"))
    place.joinpath("answers.jsonl").write_text('{"case": "fr", "output": "Paris"}\n')
    also = tv.evaluate(place / "capitals.yaml", outputs=place / "answers.jsonl", store=run.store)
    assert str(run.summary())
    assert str(tv.compare(run, also, force=True))
    run.store.close()


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite of four capitals and an agent that knows two, fails on one and notes what it is asked."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("AGENT", "STORE", "COMPARE", "INCONCLUSIVE", "RESUME"):
        monkeypatch.delenv(f"TRIVIUM_{name}", raising=False)
    pytester.path.joinpath("capitals.yaml").write_text(SUITE)
    pytester.makepyfile(capital_agents=AGENT)
    return pytester


def session(folder: pytest.Pytester, *options: str) -> pytest.RunResult:
    return folder.runpytest_inprocess(*PLUGIN, *options)


def write_tests(folder: pytest.Pytester, body: str, mark: str = '"capitals.yaml", agent=agent') -> None:
    head = f"import pytest\nfrom capital_agents import agent\npytestmark = pytest.mark.trivium({mark})\n"
    folder.path.joinpath("test_capitals.py").write_text(head + body)


def asked(folder: pytest.Pytester) -> Counter[str]:
    file = folder.path / "asked.txt"
    return Counter(file.read_text().splitlines()) if file.exists() else Counter()


def runs(folder: pytest.Pytester) -> list[str]:
    with tv.Run.load(store=str(folder.path / ".trivium" / "store.db")).store as store:
        return [record.id for record in store.runs()]


def record_answers(folder: pytest.Pytester, name: str, wrong: set[int], many: int = 60) -> None:
    """A suite of many questions, and recorded answers of which some are wrong."""
    lines = "\n".join(
        f'{{"case": "q{i}", "output": "{"no idea" if i in wrong else f"city {i}"}"}}' for i in range(many)
    )
    folder.path.joinpath(name).write_text(lines)
    cases = "".join(f"  - {{id: q{i}, input: q, references: [city {i}]}}\n" for i in range(many))
    folder.path.joinpath("many.yaml").write_text(SUITE.partition("  - ")[0] + cases)


ASSERTING_ALL = "def test_all(trivium_run):\n    pass\n"
ASSERTING_EACH = "def test_one(trivium_attempt):\n    assert trivium_attempt.passed\n"


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

    assert_comes_out(shown["pytest"], session(folder).stdout.str())


def test_an_agent_that_fails_fails_its_test_whatever_the_test_looks_at(folder: pytest.Pytester) -> None:
    write_tests(folder, "def test_one(trivium_attempt):\n    pass\n")

    result = session(folder)

    result.assert_outcomes(passed=3, failed=1)
    assert "capital_agents.py" not in result.stdout.str()  # the reason, and no traceback


def test_a_score_that_misses_its_bar_shows_output_and_reference(folder: pytest.Pytester) -> None:
    write_tests(
        folder,
        """
def test_score(trivium_attempt):
    assert trivium_attempt["jaccard"] >= 0.5
def test_bar_first(trivium_attempt):
    assert 0.5 <= trivium_attempt["composite"], "said by hand"
def test_misspelt(trivium_attempt):
    trivium_attempt["jacard"]
def test_usual(trivium_attempt):
    assert [1, 2] == [1, 3]
""",
    )

    result = session(folder, "-k", "la")

    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        [
            "E*jaccard is 0.000, and not >= 0.5 (la)",
            "E*output: Nowhere",
            "E*reference: Vientiane",
            "E*said by hand",
            "E*composite is 0.000, and not >= 0.5 (la)",
            'E*LookupError: nothing is called "jacard". Did you mean "jaccard"?',
            "E*assert [[]1, 2[]] == [[]1, 3[]]",
            "E*At index 1 diff: 2 != 3",
        ]
    )


def test_a_value_that_is_not_there_meets_no_bar_and_says_why(folder: pytest.Pytester) -> None:
    folder.path.joinpath("capitals.yaml").write_text(SUITE + "  - {id: none, input: Peru}\n")
    write_tests(folder, "def test_score(trivium_attempt):\n    assert trivium_attempt['jaccard'] >= 0\n")

    result = session(folder, "-k", "none")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*jaccard is without a value, and not >= 0 (none)", "E*no reference*"])


def test_a_gate_passes_fails_or_is_inconclusive(folder: pytest.Pytester) -> None:
    record_answers(folder, "answers.jsonl", wrong=set(range(12)))
    write_tests(
        folder,
        """
def test_passes(trivium_run):
    assert trivium_run["pass_rate"] >= 0.6
    assert trivium_run["pass_rate"] <= 0.95
    assert trivium_run["pass_rate"].value == 0.8
def test_fails(trivium_run):
    assert trivium_run["pass_rate"] >= 0.95
def test_fails_above(trivium_run):
    assert trivium_run["composite"] <= 0.5
def test_inconclusive(trivium_run):
    assert trivium_run["jaccard"] >= 0.79
def test_gates(trivium_run):
    trivium_run.require_gates()
def test_misspelt(trivium_run):
    trivium_run["pas_rate"]
""",
        mark='"many.yaml", outputs="answers.jsonl", gates={"pass_rate": {"at_least": 0.9}}',
    )

    result = session(folder)

    result.assert_outcomes(passed=1, failed=5)
    result.stdout.fnmatch_lines(
        [
            # 48 of 60: Wilson's interval is [0.682, 0.882]
            "E*fail: pass_rate 0.800 [[]0.682, 0.882[]]; at least 0.95 was asked",
            "E*q0: jaccard 0.000 is under 0.9",
            "E*run 20*",
            "E*fail: composite 0.800 [[]0.682, 0.882[]]; at most 0.5 was asked",
            "E*q*: 1.000",
            "E*inconclusive: jaccard 0.800 [[]0.682, 0.882[]], about * more cases would settle *0.79 was*",
            "E*q*: 0.000 · jaccard 0.000 is under 0.9",
            "fail: pass_rate 0.800 [[]0.682, 0.882[]]; at least 0.9 was asked",
            'E*Did you mean "pass_rate"?*',
        ]
    )


def test_what_is_inconclusive_passes_where_the_user_says_so(folder: pytest.Pytester) -> None:
    record_answers(folder, "answers.jsonl", wrong=set(range(12)))
    body = """
def test_inconclusive(trivium_run):
    assert trivium_run["jaccard"] >= 0.79
def test_no_gates(trivium_run):
    trivium_run.require_gates()
"""
    write_tests(folder, body, mark='"many.yaml", outputs="answers.jsonl"')
    folder.makeini("[pytest]\ntrivium_inconclusive = pass\ntrivium_store = elsewhere.db\n")

    result = session(folder)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(['*suite "capitals" has no gates*'])
    assert folder.path.joinpath("elsewhere.db").exists()


def test_only_what_is_selected_is_asked(folder: pytest.Pytester) -> None:
    write_tests(folder, ASSERTING_EACH)

    result = session(folder, "-k", "fr or pe", "-q")

    result.assert_outcomes(passed=2, deselected=2)
    result.stdout.fnmatch_lines(["capitals  20*  pass rate 1.000 *, 2 of 2 passed"])

    assert asked(folder) == {"France 0": 1, "Peru 0": 1}


def test_collecting_asks_nobody(folder: pytest.Pytester) -> None:
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
    nobody.stdout.fnmatch_lines(["*nobody is there to be asked*"])
    unknown.stdout.fnmatch_lines(['*capital_agents:agnet: *Did you mean "agent"*'])


def test_mistakes_of_a_suite_are_told_without_a_traceback(folder: pytest.Pytester) -> None:
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
def test_a_mark_that_is_wrong_is_told_without_a_traceback(
    folder: pytest.Pytester, mark: str, says: str
) -> None:
    write_tests(folder, ASSERTING_EACH, mark=mark)

    result = session(folder)

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"*{says}*"])
    assert "Traceback" not in result.stdout.str()


def test_a_fixture_without_its_mark_says_what_it_needs(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_bare="def test_run(trivium_run): pass")
    session(folder).stdout.fnmatch_lines(["*trivium_run needs @pytest.mark.trivium(suite)*"])

    folder.makepyfile(test_bare="def test_one(trivium_attempt): pass")
    session(folder).stdout.fnmatch_lines(["*takes trivium_attempt, and needs @pytest.mark.trivium(suite)*"])


def test_outputs_that_lack_a_case_fail_its_test(folder: pytest.Pytester) -> None:
    folder.path.joinpath("answers.jsonl").write_text('{"case": "fr", "output": "Paris"}\n')
    write_tests(folder, ASSERTING_EACH, mark='"capitals.yaml", outputs="answers.jsonl"')

    result = session(folder)

    result.assert_outcomes(passed=1, errors=3)
    result.stdout.fnmatch_lines(["run * has no attempt of pe, repeat 0"])


def test_a_run_is_compared_with_the_one_before_it(folder: pytest.Pytester) -> None:
    record_answers(folder, "before.jsonl", wrong=set())
    record_answers(folder, "worse.jsonl", wrong=set(range(0, 60, 2)))
    record_answers(folder, "unsure.jsonl", wrong={1})

    def compared(outputs: str, *options: str) -> pytest.RunResult:
        write_tests(folder, ASSERTING_ALL, mark=f'"many.yaml", outputs="{outputs}"')
        result = session(folder, *options)
        result.assert_outcomes(passed=1)
        return result

    first = compared("before.jsonl", "--trivium-compare", "previous")
    assert first.ret == 0
    first.stdout.fnmatch_lines(["*capitals: there is no earlier run to compare it with"])
    (base,) = runs(folder)

    same = compared("before.jsonl", "--trivium-compare", base)
    assert same.ret == 0
    same.stdout.fnmatch_lines([f"*compared with {base}: pass*", "*The outputs are the same.*"])

    worse = compared("worse.jsonl", "--trivium-compare", base)
    assert worse.ret == pytest.ExitCode.TESTS_FAILED
    worse.stdout.fnmatch_lines([f"*compared with {base}: fail*", "*pass_rate*−0.500*"])

    unsure = compared("unsure.jsonl", "--trivium-compare", base)
    assert unsure.ret == pytest.ExitCode.TESTS_FAILED
    unsure.stdout.fnmatch_lines([f"*compared with {base}: inconclusive*"])
    assert compared("unsure.jsonl", "--trivium-compare", base, "--trivium-inconclusive", "pass").ret == 0

    write_tests(folder, ASSERTING_ALL)
    other = session(folder, "--trivium-compare", base)
    assert other.ret == pytest.ExitCode.USAGE_ERROR  # another suite of the same name: nothing in common
    other.stdout.fnmatch_lines(["*--trivium-compare: capitals: *no case and repeat in common*"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--trivium-compare", "x"], "--trivium-compare x: *there is no store yet*"),
        (["--trivium-resume", "previous"], "--trivium-resume previous: *there is no store yet*"),
        (["--trivium-inconclusive", "maybe"], '--trivium-inconclusive: found "maybe", expected pass or fail'),
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


def test_control_c_keeps_what_is_there_and_says_how_to_go_on(folder: pytest.Pytester) -> None:
    folder.path.joinpath("capital_agents.py").write_text("""
import _thread, asyncio, pathlib
async def agent(country):
    with open("asked.txt", "a") as file:
        file.write(country + "\\n")
    if country == "Laos" and not pathlib.Path("again").exists():
        pathlib.Path("again").touch()
        _thread.interrupt_main()
        await asyncio.sleep(3600)
    return country
""")
    write_tests(
        folder,
        "def test_one(trivium_attempt):\n    pass\n",
        mark='"capitals.yaml", agent=agent, limits={"attempts_at_once": 1}',
    )

    cut = folder.runpytest_inprocess(*PLUGIN, no_reraise_ctrlc=True)

    assert cut.ret == pytest.ExitCode.INTERRUPTED
    cut.stdout.fnmatch_lines(["*capitals: cut short; 2 attempts are kept. Go on with", "  pytest *-resume *"])
    line = next(line for line in cut.outlines if "--trivium-resume" in line)

    session(folder, "--trivium-resume", line.split()[-1]).assert_outcomes(passed=4)

    assert asked(folder) == {"France": 1, "Peru": 1, "Laos": 2, "Italy": 1}
    assert len(runs(folder)) == 1


def test_workers_gather_one_run_and_ask_nothing_twice(
    folder: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = folder.mkdir("meeting")
    monkeypatch.setenv("TMPDIR", str(meeting))
    gate = "def test_rate(trivium_run):\n    assert trivium_run['pass_rate'] >= 0.9\n"
    write_tests(folder, ASSERTING_EACH + gate)

    options = ("-p", "xdist", "-n", "2", "--junitxml=junit.xml", "--trivium-compare", "previous")
    result = folder.runpytest_subprocess(*PLUGIN, *options)

    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(["capitals *", "4 attempts of 4 cases*", "*no earlier run to compare*"])
    assert not list(meeting.iterdir())
    assert asked(folder) == {f"{country} 0": 1 for country in ("France", "Peru", "Laos", "Italy")}
    (run,) = runs(folder)
    tests = {
        test.get("name"): {each.get("name"): each.get("value") for each in test.iter("property")}
        for test in ElementTree.parse(folder.path / "junit.xml").iter("testcase")
    }
    assert {properties["trivium.run"] for properties in tests.values()} == {run}
    assert tests["test_one[fr]"]["trivium.score.jaccard"] == "1.0"
    assert tests["test_one[la]"]["trivium.composite"] == "0.0"
    assert tests["test_rate"]["trivium.pass_rate"] == "0.5"
    # Wilson's score interval of 2 of 4
    assert tests["test_rate"]["trivium.pass_rate.ci95"] == "[0.150, 0.850]"


def test_when_a_worker_dies_another_goes_on_where_it_was(folder: pytest.Pytester) -> None:
    folder.path.joinpath("capital_agents.py").write_text("""
import os, pathlib
def agent(country):
    if country == "Laos" and not pathlib.Path("again").exists():
        pathlib.Path("again").touch()
        os._exit(1)
    with open("asked.txt", "a") as file:
        file.write(country + "\\n")
    return country
""")
    body = "def test_one(trivium_attempt):\n    pass\n"
    write_tests(folder, body, mark='"capitals.yaml", agent=agent, limits={"attempts_at_once": 1}')

    result = folder.runpytest_subprocess(*PLUGIN, "-p", "xdist", "-n", "1")

    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["4 attempts of 4 cases*"])
    assert set(asked(folder)) == {"France", "Peru", "Laos", "Italy"}
    assert len(runs(folder)) == 1


def test_what_the_fixtures_give_has_a_name_for_annotations() -> None:
    package = import_module("trivium.integrations.pytest")

    assert [getattr(package, name).__name__ for name in package.__all__] == ["EvaluatedRun", "TestedAttempt"]
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = package.Nothing


def test_a_file_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    held, ended, second = Event(), Event(), Event()

    def hold() -> None:
        with one_at_a_time(tmp_path / "lock"):
            held.set()
            ended.wait(60)

    def follow() -> None:
        with one_at_a_time(tmp_path / "lock"):
            assert ended.is_set()
            second.set()

    threads = [Thread(target=hold), Thread(target=follow)]
    threads[0].start()
    assert held.wait(60)
    threads[1].start()
    assert not second.wait(0.8)  # longer than it waits before it looks up
    ended.set()
    for thread in threads:
        thread.join()
    assert second.is_set()


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
    rooms = {name.split(".")[1] for name in sys.modules if name.startswith("trivium.")}
    assert rooms == {"integrations"}
    assert not {"numpy", "msgspec", "sqlalchemy", "rich"} & set(sys.modules)
""")

    result = folder.runpytest_subprocess(
        "-p", "trivium", "-p", "xdist", "-n", "1", "--trivium-inconclusive", "pass"
    )

    result.assert_outcomes(passed=1)
