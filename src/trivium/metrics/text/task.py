"""The metrics ``success`` and ``time`` (docs/definitions/text.md#success, docs/definitions/text.md#time)."""

import math
from collections.abc import Callable, Iterable, Sequence
from inspect import isawaitable
from numbers import Real
from typing import Any, Self

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.loading import load_object
from trivium.errors import AgentError, Problem, SuiteError
from trivium.metrics.evaluation import is_missing
from trivium.metrics.metric import Metric, MetricInput, Score, Skip
from trivium.metrics.registry import metric, metric_class
from trivium.metrics.text.matching import contains, equals, holds_number, word_count
from trivium.metrics.text.state import success_by_state
from trivium.suites.case import Case
from trivium.suites.rubrics.built_in import user_mistakes
from trivium.suites.settings import CRITERIA, DEFAULT_SUCCESS, Settings, SuccessRule

EVERY_TURN = "turn_success"
"""Metric that is 1 if all that a case expects of its turns is met."""
"""Default rule of a suite with expectations of single turns."""

SHORT_WORDS = 20
"""Longest reference, in words, for which ``contains`` is the default rule."""

QUOTED = 80
"""Characters of an output or a reference that a reason quotes at most."""

SEARCHED = 100_000
"""Characters of an output that a regex searches at most."""

REGEX_SECONDS = 5.0
"""Time limit of a regex on one output: nested repeats can take exponential time."""

Predicate = Callable[[Case, Attempt], Any]


@metric("success")
class Success(Metric):
    """1.0 when the attempt meets the suite's rule, else 0.0.

    Definition: docs/definitions/text.md#success.

    If the rule's metric is missing, success is skipped with its reason; if it is a fallback, so is success.

    Attributes:
        rule: What counts as success; by default ``similarity`` of at least 0.8.
        settings: Settings of the suite, whose rubrics the rule may name.
    """

    rule: SuccessRule = DEFAULT_SUCCESS
    settings: Settings | None = None

    def __post_init__(self) -> None:
        """Load what the rule names.

        Raises:
            SuiteError: If its metric or function cannot be loaded.
        """
        if self.rule.metric is not None:
            metric_class(self.rule.metric, self.settings)
        if self.rule.predicate is not None:
            _predicate(self.rule.predicate)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Make the metric with the suite's rule."""
        return cls(rule=settings.success_rule, settings=settings)

    @property
    def needs(self) -> tuple[str, ...]:
        """The metric that the rule names, if any, and those that find mistakes of a simulated user."""
        rule = self.rule
        named = (metric_class(rule.metric, self.settings).name,) if rule.metric is not None else ()
        turns = (EVERY_TURN,) if rule.turns and EVERY_TURN not in named else ()
        return (*named, *turns, *(user_mistakes() if rule.unless else ()))

    @property
    def case_fields(self) -> tuple[str, ...]:
        """What the rule compares the output with; for another metric, what that metric needs."""
        rule = self.rule
        states: tuple[str, ...] = ("expect.state", "expect.never") if rule.state else ()
        states += ("expect.turns",) if rule.turns else ()
        if rule.metric is not None:
            rules = self.settings or Settings()
            return (*states, *metric_class(rule.metric, rules).from_settings(rules).case_fields)
        compares = rule.exact or rule.contains or rule.number is not None
        return (*states, "references", "expect.output") if compares else states

    def score(self, metric_input: MetricInput) -> Score:
        """Score one attempt: whether it meets the rule."""
        if self.rule.unless and metric_input.case.user is not None:
            found = [metric_input.scores[name] for name in user_mistakes()]
            if wrong := [score.name for score in found if score.value == 0]:
                raise Skip(f"the simulated user made a mistake ({', '.join(wrong)} is 0): it is left out")
        if not self.rule.state:
            return self._by_criterion(metric_input)
        state = success_by_state(self, metric_input)
        criteria = (*CRITERIA, "turns")
        if not any(getattr(self.rule, key) for key in criteria) or (state is not None and state.value == 0):
            return state or self.skipped("the case expects nothing of the state")
        try:
            other = self._by_criterion(metric_input)
        except Skip:
            if state is None:
                raise
            return state
        return other if state is None or other.value == 0 or is_missing(other) else state

    def _by_criterion(self, metric_input: MetricInput) -> Score:
        rule, attempt = self.rule, metric_input.attempt
        if rule.turns and metric_input.case.expect.turns:
            return self._by_metric(metric_input.scores[EVERY_TURN], 1)
        if rule.metric is not None:
            return self._by_metric(metric_input.scores[self.needs[0]], rule.at_least or 0.0)
        if rule.exact:
            return self._exact(attempt.text, metric_input.case)
        if rule.contains is not None:
            return self._contains(attempt.text, metric_input.case)
        if rule.number is not None:
            return self._number(attempt.text, metric_input.case, rule.number)
        if rule.regex is not None:
            return self._decided(_matches(rule.regex, attempt.text), f"regex {rule.regex}")
        if rule.predicate is not None:
            verdict = _verdict(_predicate(rule.predicate)(metric_input.case, attempt))
            return self.ok(verdict, method=f"predicate {rule.predicate}")
        if rule.reward is None:
            raise Skip("the case expects nothing of its turns")
        if attempt.reward is None:
            raise Skip("no reward was recorded")
        reached = attempt.reward >= rule.reward
        return self._decided(reached, f"reward ≥ {rule.reward:g}", raw=attempt.reward)

    def _exact(self, text: str, case: Case) -> Score:
        output = case.expect.output_text
        expected = _some(case.references if output is None else (output,))
        equal = any(equals(text, each) for each in expected)
        why = None if equal else f"the output is {_quoted(text)}, expected {_either(expected)}"
        return self._decided(equal, "exact match", reason=why)

    def _contains(self, text: str, case: Case) -> Score:
        expected = _expected(case)
        fold = self.rule.ignore_case is not False
        missing = [each for each in expected if not contains(text, each, ignore_case=fold)]
        success = not missing if self.rule.contains == "all" else len(missing) < len(expected)
        why = None if success else f"{_either(missing)} is not in the output {_quoted(text)}"
        return self._decided(success, f"contains {self.rule.contains}", reason=why)

    def _number(self, text: str, case: Case, tolerance: float) -> Score:
        expected = _expected(case)
        found = [holds_number(text, each, tolerance) for each in expected]
        if None in found:
            unclear = _quoted(expected[found.index(None)])
            raise Skip(f"the reference {unclear} is not one number")
        why = None if any(found) else f"{_either(expected)} is not among the numbers of {_quoted(text)}"
        return self._decided(any(found), f"number ± {tolerance:g}", reason=why)

    def _decided(self, success: bool, method: str, **fields: Any) -> Score:
        return self.ok(float(success), method=method, **fields)

    def _by_metric(self, judged: Score, threshold: float) -> Score:
        if is_missing(judged):
            return self.skipped(f"{judged.name} is missing: {judged.reason}", missing=True)
        if judged.value is None:
            raise Skip(f"{judged.name} has no score: {judged.reason}")
        return self.ok(
            float(judged.value >= threshold),
            status=judged.status,
            raw=judged.value,
            reason=judged.reason,
            method=f"{judged.name} ≥ {threshold:g}",
        )


def with_default_success(settings: Settings, cases: Iterable[Case]) -> Settings:
    """Set the default success rule of a suite that states none; the order of its cases does not matter.

    Definition: docs/definitions/text.md#success.

    Similarity suits outputs that repeat a long reference. For a short one it is too strict: if "Lima" is
    expected, "Lima is the capital of Peru" is right.

    Args:
        settings: Settings of the suite; returned unchanged if they state a rule.
        cases: Cases of the suite.
    """
    if settings.success is not None:
        return settings
    turns = short = long = False
    for case in cases:
        if case.expect.turns:
            turns = True
        elif case.references and not long:
            short = True
            long = max(map(word_count, case.references)) > SHORT_WORDS
    by_state = None if settings.world is None else True
    rule = SuccessRule(state=by_state, turns=turns or None)
    if short and not long:
        rule = msgspec.structs.replace(rule, contains="any")
    elif turns and not long:  # no other case has a reference
        rule = SuccessRule(metric=EVERY_TURN, at_least=1, state=by_state)
    elif not by_state:
        rule = msgspec.structs.replace(DEFAULT_SUCCESS, turns=turns or None)
    return settings if rule == DEFAULT_SUCCESS else msgspec.structs.replace(settings, success=rule)


def _expected(case: Case) -> tuple[str, ...]:
    """The case's references, or else its ``expect.output``."""
    output = case.expect.output_text
    return _some(case.references or (() if output is None else (output,)))


def _some(expected: tuple[str, ...]) -> tuple[str, ...]:
    if not expected:
        raise Skip("the case has neither a reference nor expect.output")
    return expected


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= QUOTED else f'"{line[:QUOTED]}…"'


def _either(texts: Sequence[str]) -> str:
    first = _quoted(texts[0])
    others = len(texts) - 1
    return first if not others else f"{first} (or {others} other reference{'s' if others > 1 else ''})"


def _matches(pattern: str, text: str) -> bool:
    import regex

    try:
        found = regex.search(pattern, text[:SEARCHED], timeout=REGEX_SECONDS, concurrent=True)
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
    """Load the function of a rule; modules in the working folder are found, too."""
    try:
        function: Predicate = load_object(spec, what="function", forms="package.module:function")
    except AgentError as wrong:
        raise SuiteError("", Problem("success.predicate", str(wrong))) from wrong
    if not callable(function):
        raise SuiteError("", Problem("success.predicate", f"{spec} is no function"))
    return function


def _verdict(answer: Any) -> float:
    """Convert the result of a predicate to [0, 1]: a truth value, or a number for partial success."""
    if isawaitable(answer):
        raise TypeError("the predicate is a coroutine; expected a plain function")
    if isinstance(answer, Real):
        number = float(answer)
        if 0 <= number <= 1:
            return number
        raise ValueError(f"the predicate returned {answer}, expected True, False or a number in [0, 1]")
    return float(bool(answer))


def time_score(seconds: float) -> float:
    """1 up to a second, then 1 / (1 + ln t): 0.42 at 4 s, 0.2 at 55 s.

    Args:
        seconds: Wall time, 0 or more.

    Returns:
        In (0, 1], falling, continuous.
    """
    return 1.0 if seconds <= 1 else 1 / (1 + math.log(seconds))


@metric("time")
class Time(Metric):
    """How fast the attempt was; ``raw`` is its wall time in seconds.

    Definition: docs/definitions/text.md#time.
    """

    unit = "s"
    better = "lower"

    def score(self, metric_input: MetricInput) -> Score:
        """Score the wall time of one attempt."""
        seconds = metric_input.attempt.seconds
        if seconds is None:
            raise Skip("the attempt's time was not measured")
        if not (math.isfinite(seconds) and seconds >= 0):
            raise Skip(f"the attempt's time is no duration: {seconds} s")
        return self.ok(time_score(seconds), raw=seconds)
