import sys
from pathlib import Path
from typing import Any

import pytest

import trivium as tv
from trivium.errors import SuiteError
from trivium.metrics.metric import MetricInput, Score
from trivium.metrics.registry import build_metrics
from trivium.metrics.text.task import Success
from trivium.suites.settings import DEFAULT_SUCCESS, Settings, SuccessRule


def judged(
    rule: SuccessRule, *, scores: dict[str, Score] | None = None, expect: Any = None, **attempt: Any
) -> Score:
    case = tv.Case(id="1", input=None, references=("Paris", "Lutetia"), expect=expect or tv.Expect())
    return Success(rule=rule).score_or_skip(MetricInput(case, tv.Attempt(case="1", **attempt), scores or {}))


def similarity(value: float | None, **fields: Any) -> dict[str, Score]:
    return {"similarity": Score(name="similarity", tier="text", value=value, **fields)}


@pytest.mark.parametrize(("value", "expected"), [(0.8, 1.0), (0.7999999, 0.0), (1.0, 1.0), (0.0, 0.0)])
def test_success_is_a_similarity_of_at_least_the_bar(value: float, expected: float):
    score = judged(DEFAULT_SUCCESS, scores=similarity(value))
    assert (score.value, score.raw, score.method) == (expected, value, "similarity ≥ 0.8")


def test_without_a_rule_it_is_similarity_that_counts():
    case, attempt = tv.Case(id="1", input=None), tv.Attempt(case="1", output="x")
    assert Success().score(MetricInput(case, attempt, similarity(0.8))).method == "similarity ≥ 0.8"


def test_success_is_skipped_where_its_metric_is():
    why = similarity(None, status="skipped", reason="the case has no reference")
    score = judged(DEFAULT_SUCCESS, scores=why)
    assert (score.status, score.value) == ("skipped", None)
    assert score.reason == "similarity has no score: the case has no reference"


def test_success_is_missing_where_its_metric_is():
    why = similarity(None, status="error", reason="the encoder failed")
    score = judged(DEFAULT_SUCCESS, scores=why)
    assert (score.status, score.missing) == ("skipped", True)
    assert score.reason == "similarity is missing: the encoder failed"


def test_success_on_a_fallback_is_a_fallback():
    why = similarity(0.9, status="fallback", reason="without semantic: no encoder")
    score = judged(DEFAULT_SUCCESS, scores=why)
    assert (score.status, score.value, score.reason) == ("fallback", 1.0, "without semantic: no encoder")


def test_success_may_ask_any_metric():
    settings = Settings(success=SuccessRule(metric="jaccard", at_least=0.5))
    assert [each.name for each in build_metrics(["success"], settings)] == ["jaccard", "success"]
    score = tv.score("success", output="a b", references=["a b c"], success=settings.success)
    assert (score.value, score.raw) == (1.0, pytest.approx(2 / 3))
    whole = {"metric": "jaccard", "at_least": 1}
    assert tv.score("success", output="a b", references=["a b"], success=whole).value == 1.0
    assert tv.score("success", output="a b", references=["a b c"], success=whole).value == 0.0


@pytest.mark.parametrize(
    ("output", "expect", "expected"),
    [
        (" Paris\n", None, 1.0),
        ("Lutetia", None, 1.0),
        ("paris", None, 0.0),
        ("Paris", tv.Expect(output="London"), 0.0),
        ("London ", tv.Expect(output="London"), 1.0),
        ({"b": 1, "a": 2}, tv.Expect(output='{"a":2,"b":1}'), 1.0),
    ],
)
def test_success_may_be_an_exact_match(output: Any, expect: tv.Expect | None, expected: float):
    assert judged(SuccessRule(exact=True), output=output, expect=expect).value == expected


def test_exact_match_without_anything_to_match_is_skipped():
    score = tv.score("success", output="x", success=SuccessRule(exact=True))
    assert (score.status, score.value) == ("skipped", None)


@pytest.mark.parametrize(("output", "expected"), [("answer: 42", 1.0), ("answer: none", 0.0), ("", 0.0)])
def test_success_may_be_a_pattern(output: str, expected: float):
    assert judged(SuccessRule(regex=r"\d+"), output=output).value == expected


def test_a_pattern_that_takes_exponential_time_is_given_up(monkeypatch):
    monkeypatch.setattr("trivium.metrics.text.task.REGEX_SECONDS", 0.1)
    with pytest.raises(ValueError, match=r'the regex "\(a\|aa\)\+\$" took longer than 0.1 s'):
        judged(SuccessRule(regex="(a|aa)+$"), output="a" * 60 + "!")


def test_a_pattern_gets_five_seconds_in_which_other_threads_go_on(monkeypatch):
    limits: dict[str, Any] = {}
    monkeypatch.setattr("regex.search", lambda pattern, text, **given: limits.update(given))
    judged(SuccessRule(regex="x"), output="x")
    assert limits == {"timeout": 5.0, "concurrent": True}


def test_a_pattern_is_not_tried_on_more_than_the_head_of_a_huge_output():
    found = judged(SuccessRule(regex="needle"), output="needle" + "x" * 200_000)
    lost = judged(SuccessRule(regex="needle"), output="x" * 200_000 + "needle")
    assert judged(SuccessRule(regex="needle"), output="x" * 99_994 + "needle.").value == 1.0
    assert judged(SuccessRule(regex="needle"), output="x" * 99_995 + "needle").status == "skipped"
    assert found.value == 1.0
    assert (lost.status, lost.value) == ("skipped", None)
    assert "200,006" in str(lost.reason)
    whole = judged(SuccessRule(regex="needle"), output="x" * 100_000)
    assert (whole.status, whole.value) == ("ok", 0.0), "all of it was searched"


@pytest.mark.parametrize(
    ("reward", "bar", "expected"),
    [(1.0, 1.0, 1.0), (0.5, 1.0, 0.0), (0.5, 0.5, 1.0), (0.0, 0.0, 1.0), (2.0, 1.0, 1.0), (-0.5, 0.0, 0.0)],
)
def test_success_may_be_a_recorded_reward(reward: float, bar: float, expected: float):
    score = judged(SuccessRule(reward=bar), reward=reward)
    assert (score.value, score.raw) == (expected, reward)


def test_no_recorded_reward_is_skipped():
    assert judged(SuccessRule(reward=1.0)).status == "skipped"


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of predicates in the working folder."""
    (tmp_path / "my_rules.py").write_text(
        "def short(case, attempt): return len(attempt.text) < 5 and case.id == '1'\n"
        "def share(case, attempt): return 0.25\n"
        "def wild(case, attempt): return 7\n"
        "def found(case, attempt): return [attempt.text]\n"
        "def nothing(case, attempt): return None\n"
        "def whole(case, attempt): return 1.0\n"
        "def below(case, attempt): return -0.1\n"
        "def above(case, attempt): return 1.1\n"
        "import numpy\n"
        "def other_number(case, attempt): return numpy.float32(0.5)\n"
        "async def later(case, attempt): return False\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_rules", raising=False)
    return "my_rules"


@pytest.mark.parametrize(
    ("name", "output", "expected"),
    [
        ("short", "abc", 1.0),
        ("short", "abcdef", 0.0),
        ("share", "", 0.25),
        ("found", "", 1.0),
        ("nothing", "", 0.0),
        ("whole", "", 1.0),
        ("other_number", "", 0.5),
    ],
)
def test_success_may_be_a_predicate(rules: str, name: str, output: str, expected: float):
    score = judged(SuccessRule(predicate=f"{rules}:{name}"), output=output)
    assert (score.value, score.method) == (expected, f"predicate my_rules:{name}")


@pytest.mark.parametrize(
    ("name", "message"), [("wild", "returned 7"), ("below", "returned -0.1"), ("above", "returned 1.1")]
)
def test_a_predicate_that_returns_nonsense_is_an_error_of_that_attempt(rules: str, name: str, message: str):
    score = tv.score("success", output="x", success=SuccessRule(predicate=f"{rules}:{name}"))
    assert (score.status, score.value) == ("error", None)
    assert message in str(score.reason)


@pytest.mark.filterwarnings("ignore:coroutine 'later' was never awaited:RuntimeWarning")
def test_a_predicate_that_is_a_coroutine_is_an_error_not_a_success(rules: str):
    score = tv.score("success", output="x", success=SuccessRule(predicate=f"{rules}:later"))
    assert (score.status, score.reason) == (
        "error",
        "TypeError: the predicate is a coroutine; expected a plain function",
    )


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (SuccessRule(), "names no criterion"),
        (SuccessRule(exact=False), "names no criterion"),
        (SuccessRule(exact=True, regex="x"), "names exact and regex"),
        (SuccessRule(regex="x", reward=0.0), "names regex and reward"),
        (SuccessRule(metric="jaccard"), '"at_least" is missing'),
        (SuccessRule(metric="jaccard", at_least=1.5), "found the number 1.5"),
        (SuccessRule(metric="jaccard", at_least=-0.5), "found the number -0.5"),
        (SuccessRule(metric="similarty", at_least=0.5), 'Did you mean "similarity"?'),
        (SuccessRule(exact=True, at_least=0.5), "is the threshold of a metric, and no metric is named"),
        (SuccessRule(regex="("), "is no regular expression"),
        (SuccessRule(predicate="no_colon"), "expected package.module:function"),
        (SuccessRule(predicate="no_such_module_here:f"), 'there is no module "no_such_module_here"'),
        (SuccessRule(predicate="math:sqr"), 'Did you mean "sqrt"?'),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_before_anything_is_scored(rule: SuccessRule, message: str):
    with pytest.raises(SuiteError) as caught:
        tv.score("success", output="x", success=rule)
    assert message in str(caught.value)


def test_a_failed_attempt_has_success_zero():
    score = tv.score("success", error="timed out", references=["x"])
    assert (score.value, score.status) == (0.0, "ok")


@pytest.mark.parametrize(
    ("output", "references", "how", "expected"),
    [
        ("Lima is the capital of Peru.", ["Lima"], "any", 1.0),
        ("LIMA", ["lima"], "any", 1.0),
        ("It is\n  New   York.", ["new york"], "any", 1.0),
        ("I do not know", ["no"], "any", 0.0),
        ("42", ["4"], "any", 0.0),
        ("Was 4, now 42", ["4"], "any", 1.0),
        ("Straße", ["STRASSE"], "any", 1.0),
        ("\u6771\u4eac\u3067\u3059", ["\u6771\u4eac"], "any", 1.0),
        ("red and green", ["green", "blue"], "any", 1.0),
        ("red and green", ["green", "blue"], "all", 0.0),
        ("red, blue and green", ["green", "blue"], "all", 1.0),
        ("", ["x"], "any", 0.0),
    ],
)
def test_an_output_may_contain_its_references_as_whole_words(output, references, how, expected):
    score = tv.score("success", output=output, references=references, success={"contains": how})
    assert (score.value, score.method) == (expected, f"contains {how}")


def test_case_counts_where_the_rule_says_so():
    rule = {"contains": "any", "ignore_case": False}
    assert tv.score("success", output="LIMA", references=["Lima"], success=rule).value == 0.0
    assert tv.score("success", output="In Lima", references=["Lima"], success=rule).value == 1.0
    with pytest.raises(SuiteError, match="goes with success.contains only"):
        tv.score("success", output="x", references=["x"], success={"exact": True, "ignore_case": True})


def test_by_default_short_references_are_contained_and_long_ones_are_compared():
    short = tv.score("success", output="Lima is the capital of Peru.", references=["Lima", "lima, Peru"])
    assert (short.value, short.method) == (1.0, "contains any")
    words = {"similarity": {"jaccard": 1}}
    long = tv.score("success", output="Lima", references=["Lima", "word " * 21], **words)
    assert long.method == "similarity ≥ 0.8"
    twenty = tv.score("success", output="Lima", references=["Lima", "word " * 20], **words)
    assert twenty.method == "contains any"
    without = tv.score("success", output="Lima", **words)
    assert without.reason == "similarity has no score: the case has no reference"


def test_a_mapping_says_what_a_rule_and_a_judge_are_as_a_suite_file_does():
    by = {"metric": "jaccard", "at_least": 0.5}
    assert tv.score("success", output="a b", references=["a b c"], success=by).value == 1.0
    unjudged = tv.score("clarity", output="a b", judge={"models": [], "on_failure": "skip"})
    assert unjudged.status == "skipped"
    with pytest.raises(SuiteError, match="at_least"):
        tv.score("success", output="a", references=["a"], success={"metric": "jaccard", "atleast": 0.5})


def test_a_miss_says_what_was_expected_and_what_was_found():
    exact = tv.score("success", output="Quito", references=["Lima"], success={"exact": True})
    assert exact.reason == 'the output is "Quito", expected "Lima"'
    contained = tv.score("success", output="Quito", references=["Lima"])
    assert contained.reason == '"Lima" is not in the output "Quito"'


def contains(output: str, *references: str, expect: Any = None, **rule: Any) -> Score:
    case = tv.Case(id="1", input=None, references=references, expect=expect or tv.Expect())
    metric = Success(rule=SuccessRule(**(rule or {"contains": True})))
    return metric.score_or_skip(MetricInput(case, tv.Attempt(case="1", output=output), {}))


@pytest.mark.parametrize(
    ("references", "says"),
    [
        (("Paris",), '"Paris" is'),
        (("Paris", "Lutetia"), '"Paris" (or 1 other reference) is'),
        (("Paris", "Lutetia", "Panam"), '"Paris" (or 2 other references) is'),
        (("x" * 80,), f'"{"x" * 80}" is'),
        (("x" * 81,), f'"{"x" * 80}…" is'),
    ],
)
def test_a_reason_quotes_the_first_reference_and_counts_the_others(references: tuple[str, ...], says: str):
    assert contains("Rome", *references).reason.startswith(says)


def test_a_case_with_only_an_expected_output_is_compared_with_it():
    assert contains("It is Paris.", expect=tv.Expect(output="Paris")).value == 1
    assert contains("It is Paris.").status == "skipped"


def test_a_number_that_is_not_there_is_named_and_one_that_is_needs_no_reason():
    missed = contains("about 41", "42", number=0.5)
    assert (missed.value, missed.reason) == (0, '"42" is not among the numbers of "about 41"')
    assert (contains("about 41.6", "42", number=0.5).reason or None) is None


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        ({"exact": True}, ("references", "expect.output")),
        ({"contains": "all"}, ("references", "expect.output")),
        ({"number": 0.1}, ("references", "expect.output")),
        ({"regex": "x"}, ()),
        ({"reward": 1.0}, ()),
    ],
)
def test_only_rules_that_compare_need_something_of_the_case(rule: dict[str, Any], fields: tuple[str, ...]):
    assert Success(rule=SuccessRule(**rule)).case_fields == fields


def test_a_rule_by_a_metric_needs_of_the_case_what_the_metric_needs():
    by = Success(rule=SuccessRule(metric="jaccard", at_least=0.5))
    assert by.case_fields == build_metrics(["jaccard"], Settings())[0].case_fields == ("references",)
    assert Success(rule=SuccessRule(metric="time", at_least=0.5)).case_fields == ()


def test_a_bar_of_0_is_a_bar():
    Settings(success=SuccessRule(metric="jaccard", at_least=0.0))
    assert tv.score(
        "success", output="a", references=["b"], success={"metric": "jaccard", "at_least": 0}
    ).value
