"""Which tests of a suite pass, fail or are inconclusive, and what is said of them."""

import pytest

from tests.integrations.pytest_plugin.sessions import (
    ASSERTING_ALL,
    SUITE,
    record_answers,
    runs,
    session,
    write_tests,
)
from trivium.store.store import Store

pytest_plugins = ["pytester"]


def test_a_failed_attempt_fails_its_test_whichever_field_the_test_reads(folder: pytest.Pytester) -> None:
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
            'E*LookupError: there is no score "jacard". Did you mean "jaccard"?',
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


def test_a_gate_passes_or_fails_and_says_how_likely_it_misses_its_limit(folder: pytest.Pytester) -> None:
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
def test_probably_missed(trivium_run):
    assert trivium_run["jaccard"] >= 0.81
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
            # 48 of 60: the exact interval is [0.677, 0.892]
            "E*fail: pass_rate 0.800 [[]0.677, 0.892[]]; required: at least 0.95",
            "E*q0: jaccard 0.000 is under 0.9",
            "E*run 20*",
            "E*fail: composite 0.800 [[]0.677, 0.892[]]; required: at most 0.5",
            "E*q*: 1.000",
            "E*fail: jaccard 0.800 [[]0.677, 0.892[]], misses the limit with *, more than *at least 0.81",
            "E*q*: 0.000 · jaccard 0.000 is under 0.9",
            "fail: pass_rate 0.800 [[]0.677, 0.892[]]; required: at least 0.9",
            'E*Did you mean "pass_rate"?*',
        ]
    )


def test_what_is_not_proven_passes_unless_the_user_asks_for_proof(folder: pytest.Pytester) -> None:
    record_answers(folder, "answers.jsonl", wrong=set(range(12)))
    body = """
def test_unproven(trivium_run):
    assert trivium_run["jaccard"] >= 0.79
def test_no_gates(trivium_run):
    trivium_run.require_gates()
"""
    write_tests(folder, body, mark='"many.yaml", outputs="answers.jsonl"')
    folder.makeini("[pytest]\ntrivium_policy = proof\ntrivium_store = elsewhere.db\n")
    session(folder).assert_outcomes(failed=2)

    result = session(folder, "--trivium-policy", "balanced")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(['*suite "capitals" has no gates*'])
    assert folder.path.joinpath("elsewhere.db").exists()


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

    worse = compared("worse.jsonl", "--trivium-compare", base, "--trivium-agent-version", "v2")
    assert worse.ret == pytest.ExitCode.TESTS_FAILED
    worse.stdout.fnmatch_lines([f"*compared with {base}: fail*", "*moved: 30 unclear*", "*pass_rate*−0.500*"])
    with Store(str(folder.path / ".trivium" / "store.db"), read_only=True) as store:
        assert store.run().provenance.version == "v2"

    unsure = compared("unsure.jsonl", "--trivium-compare", base, "--trivium-policy", "proof")
    assert unsure.ret == pytest.ExitCode.TESTS_FAILED
    unsure.stdout.fnmatch_lines([f"*compared with {base}: inconclusive*"])
    assert compared("unsure.jsonl", "--trivium-compare", base).ret == 0

    write_tests(folder, ASSERTING_ALL)
    other = session(folder, "--trivium-compare", base)
    assert other.ret == pytest.ExitCode.USAGE_ERROR  # another suite of the same name: nothing in common
    other.stdout.fnmatch_lines(["*--trivium-compare: capitals: *no case and repeat in common*"])


def test_the_previous_run_is_a_finished_one_from_before_the_session(folder: pytest.Pytester) -> None:
    record_answers(folder, "same.jsonl", wrong=set())
    record_answers(folder, "worse.jsonl", wrong=set(range(0, 60, 2)))
    write_tests(folder, ASSERTING_ALL, mark='"many.yaml", outputs="same.jsonl"')
    assert session(folder).ret == 0
    (done,) = runs(folder)
    with Store(f"sqlite:///{folder.path}/.trivium/store.db") as store:
        finished = store.run(done)
        store.new_run(  # what an interruption leaves behind
            id="interrupted",
            suite_name=finished.suite_name,
            suite=finished.suite,
            kind=finished.kind,
            settings=finished.settings,
            provenance=finished.provenance,
        )
    first, second = (
        f'@pytest.mark.trivium("many.yaml", outputs="{name}.jsonl")\n'
        f"def test_{name}(trivium_run):\n    assert trivium_run\n"
        for name in ("same", "worse")
    )
    folder.makepyfile(test_both=f"import pytest\n\n\n{first}\n\n{second}")
    both = session(folder, "test_both.py", "--trivium-compare", "previous")
    both.stdout.fnmatch_lines([f"*compared with {done}: pass*", f"*compared with {done}: fail*"])
