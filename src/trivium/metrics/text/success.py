"""Success: whether an attempt did what it should (spec: metrics, T1.6)."""

from collections.abc import Callable
from inspect import isawaitable
from numbers import Real
from typing import Any, Self

from trivium.agents.attempt import Attempt
from trivium.agents.importing import import_here
from trivium.errors import Problem, SuiteError, suggest
from trivium.metrics.metric import Metric, Skip, Subject, metric
from trivium.metrics.registry import metric_class
from trivium.metrics.score import Score, is_missing
from trivium.suites.case import Case
from trivium.suites.settings import Settings, SuccessRule

WAYS = ("metric", "exact", "regex", "predicate", "reward")

DEFAULT_BAR = 0.8
"""Bar of ``similarity`` when the rule names none (spec: metrics, T1.6)."""

SEARCHED = 100_000
"""Characters of an output that a regex is tried on."""

REGEX_SECONDS = 5.0
"""How long a regex is tried on one output: one with nested repeats takes exponential time on some texts."""

Predicate = Callable[[Case, Attempt], Any]


@metric("success")
class Success(Metric):
    """1.0 when the attempt meets the suite's rule, else 0.0.

    Where the rule compares a metric whose score is missing, success is skipped with its reason; where
    that score is a fallback, so is the success.

    Attributes:
        rule: What counts as success; by default ``similarity`` of at least 0.8.
        settings: The suite's, whose rubrics the rule may name.
    """

    rule: SuccessRule = SuccessRule(metric="similarity")
    settings: Settings | None = None

    def __post_init__(self) -> None:
        """Refuse a rule that cannot be used.

        Raises:
            SuiteError: If it names no way or several, or what it names cannot be had.
        """
        _check(self.rule, self.settings)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The metric with the suite's rule."""
        return cls(rule=settings.success, settings=settings)

    @property
    def needs(self) -> tuple[str, ...]:
        """The metric that the rule names."""
        rule = self.rule
        return (metric_class(rule.metric, self.settings).name,) if rule.metric is not None else ()

    def score(self, subject: Subject) -> Score:
        """Whether the attempt meets the rule."""
        rule, attempt = self.rule, subject.attempt
        if rule.metric is not None:
            return self._by_metric(subject.scores[self.needs[0]])
        if rule.exact:
            return self._said(_equals(attempt.text, subject.case), "exact match")
        if rule.regex is not None:
            return self._said(_matches(rule.regex, attempt.text), f"regex {rule.regex}")
        if rule.predicate is not None:
            verdict = _verdict(_predicate(rule.predicate)(subject.case, attempt))
            return self.ok(verdict, method=f"predicate {rule.predicate}")
        if attempt.reward is None:
            raise Skip("no reward was recorded")
        bar = rule.reward or 0.0
        return self._said(attempt.reward >= bar, f"reward ≥ {bar:g}", raw=attempt.reward)

    def _said(self, success: bool, method: str, **fields: Any) -> Score:
        return self.ok(float(success), method=method, **fields)

    def _by_metric(self, judged: Score) -> Score:
        if is_missing(judged):
            return self.skipped(f"{judged.name} is missing: {judged.reason}", missing=True)
        if judged.value is None:
            raise Skip(f"{judged.name} has no score: {judged.reason}")
        bar = DEFAULT_BAR if self.rule.at_least is None else self.rule.at_least
        return Score(
            name=self.name,
            tier=self.tier,
            value=float(judged.value >= bar),
            status=judged.status,
            raw=judged.value,
            reason=judged.reason,
            method=f"{judged.name} ≥ {bar:g}",
        )


def _check(rule: SuccessRule, settings: Settings | None) -> None:
    given = [way for way in WAYS if (said := getattr(rule, way)) is not None and said is not False]
    if len(given) != 1:
        found = f"names {' and '.join(given)}" if given else "names no way"
        raise SuiteError("", Problem("success", f"{found}; expected one of {', '.join(WAYS)}"))
    if rule.at_least is not None and rule.metric is None:
        raise SuiteError("", Problem("success.at_least", "goes with success.metric only"))
    if rule.metric is not None:
        name = metric_class(rule.metric, settings).name
        if rule.at_least is None and name != "similarity":
            raise SuiteError("", Problem("success.at_least", f"which value of {name} counts as success?"))
        if rule.at_least is not None and not 0 <= rule.at_least <= 1:
            raise SuiteError("", Problem("success.at_least", f"found {rule.at_least:g}, expected 0 to 1"))
    if rule.regex is not None:
        import regex

        try:
            regex.compile(rule.regex)
        except (regex.error, RecursionError, OverflowError) as error:
            raise SuiteError(
                "", Problem("success.regex", f'"{rule.regex}" is no pattern: {error}')
            ) from error
    if rule.predicate is not None:
        _predicate(rule.predicate)


def _equals(text: str, case: Case) -> bool:
    expected = case.references if case.expect.output is None else (case.expect.output,)
    if not expected:
        raise Skip("the case has neither expect.output nor a reference")
    return text.strip() in {each.strip() for each in expected}


def _matches(pattern: str, text: str) -> bool:
    import regex

    try:
        found = regex.search(pattern, text[:SEARCHED], timeout=REGEX_SECONDS)
    except TimeoutError:
        raise ValueError(
            f'the regex "{pattern}" took longer than {REGEX_SECONDS:g} s: nested repeats such as (a+)+ take '
            "exponential time"
        ) from None
    if found:
        return True
    if len(text) > SEARCHED:
        raise Skip(f"nothing found in the first {SEARCHED:,} of the output's {len(text):,} characters")
    return False


def _predicate(spec: str) -> Predicate:
    """The function that ``package.module:name`` means; the working folder is looked in too."""
    module, _, name = spec.partition(":")
    where = "success.predicate"
    if not (module and name):
        raise SuiteError("", Problem(where, f'found "{spec}", expected package.module:function'))
    try:
        found = import_here(module)
    except (Exception, SystemExit) as error:  # a module that a user wrote may raise anything
        raise SuiteError("", Problem(where, f"importing {module} failed: {error!r}")) from error
    function = getattr(found, name, None)
    if not callable(function):
        known = [each for each in dir(found) if not each.startswith("_")]
        raise SuiteError("", Problem(where, f'{module} has no function "{name}".{suggest(name, known)}'))
    predicate: Predicate = function
    return predicate


def _verdict(answer: Any) -> float:
    """What a predicate said, in [0, 1]: a truth value, or a number for partial success."""
    if isawaitable(answer):
        raise TypeError("the predicate is a coroutine; expected a plain function")
    if isinstance(answer, Real):
        number = float(answer)
        if 0 <= number <= 1:
            return number
        raise ValueError(f"the predicate returned {answer}, expected True, False or a number in [0, 1]")
    return float(bool(answer))
