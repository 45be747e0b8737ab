"""Decides whether an attempt succeeded, and scores the time it took (spec: metrics, T1)."""

import math
from collections.abc import Callable, Iterable, Sequence
from inspect import isawaitable
from numbers import Real
from typing import Any, Self

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.loading import import_here
from trivium.errors import Problem, SuiteError, suggest
from trivium.metrics.metric import Metric, MetricInput, Score, Skip, is_missing
from trivium.metrics.registry import metric, metric_class
from trivium.suites.case import Case
from trivium.suites.settings import Settings, SuccessRule

WAYS = ("metric", "exact", "contains", "regex", "predicate", "reward")

DEFAULT_THRESHOLD = 0.8
"""Threshold of ``similarity`` when the rule names none (spec: metrics, T1.6)."""

SHORT_WORDS = 20
"""Words of the longest reference for which ``contains`` is what counts where a suite does not say."""

QUOTED = 80
"""Characters of an output or a reference that a reason quotes."""

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
        return cls(rule=settings.success_rule, settings=settings)

    @property
    def needs(self) -> tuple[str, ...]:
        """The metric that the rule names."""
        rule = self.rule
        return (metric_class(rule.metric, self.settings).name,) if rule.metric is not None else ()

    def score(self, metric_input: MetricInput) -> Score:
        """Whether the attempt meets the rule."""
        rule, attempt = self.rule, metric_input.attempt
        if rule.metric is not None:
            return self._by_metric(metric_input.scores[self.needs[0]])
        if rule.exact:
            return self._exact(attempt.text, metric_input.case)
        if rule.contains is not None:
            return self._contains(attempt.text, metric_input.case)
        if rule.regex is not None:
            return self._decided(_matches(rule.regex, attempt.text), f"regex {rule.regex}")
        if rule.predicate is not None:
            verdict = _verdict(_predicate(rule.predicate)(metric_input.case, attempt))
            return self.ok(verdict, method=f"predicate {rule.predicate}")
        if attempt.reward is None:
            raise Skip("no reward was recorded")
        threshold = rule.reward or 0.0
        return self._decided(attempt.reward >= threshold, f"reward ≥ {threshold:g}", raw=attempt.reward)

    def _exact(self, text: str, case: Case) -> Score:
        expected = case.references if case.expect.output is None else (case.expect.output,)
        if not expected:
            raise Skip("the case has neither expect.output nor a reference")
        equal = text.strip() in {each.strip() for each in expected}
        why = None if equal else f"the output is {_quoted(text)}, expected {_either(expected)}"
        return self._decided(equal, "exact match", reason=why)

    def _contains(self, text: str, case: Case) -> Score:
        expected = case.references or (() if case.expect.output is None else (case.expect.output,))
        if not expected:
            raise Skip("the case has neither a reference nor expect.output")
        fold = self.rule.ignore_case is not False
        lacking = [each for each in expected if not contains(text, each, ignore_case=fold)]
        whole = not lacking if self.rule.contains == "all" else len(lacking) < len(expected)
        why = None if whole else f"{_either(lacking)} is not in the output {_quoted(text)}"
        return self._decided(whole, f"contains {self.rule.contains}", reason=why)

    def _decided(self, success: bool, method: str, **fields: Any) -> Score:
        return self.ok(float(success), method=method, **fields)

    def _by_metric(self, judged: Score) -> Score:
        if is_missing(judged):
            return self.skipped(f"{judged.name} is missing: {judged.reason}", missing=True)
        if judged.value is None:
            raise Skip(f"{judged.name} has no score: {judged.reason}")
        threshold = DEFAULT_THRESHOLD if self.rule.at_least is None else self.rule.at_least
        return Score(
            name=self.name,
            tier=self.tier,
            value=float(judged.value >= threshold),
            status=judged.status,
            raw=judged.value,
            reason=judged.reason,
            method=f"{judged.name} ≥ {threshold:g}",
        )


def _check(rule: SuccessRule, settings: Settings | None) -> None:
    given = [way for way in WAYS if (said := getattr(rule, way)) is not None and said is not False]
    if len(given) != 1:
        found = f"names {' and '.join(given)}" if given else "names no way"
        raise SuiteError("", Problem("success", f"{found}; expected one of {', '.join(WAYS)}"))
    if rule.at_least is not None and rule.metric is None:
        raise SuiteError("", Problem("success.at_least", "goes with success.metric only"))
    if rule.ignore_case is not None and rule.contains is None:
        raise SuiteError("", Problem("success.ignore_case", "goes with success.contains only"))
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


def with_default_success(settings: Settings, cases: Iterable[Case]) -> Settings:
    """Settings that say what success is: ``contains`` where every reference is short (spec: metrics, T1.6).

    Similarity suits outputs that repeat a reference; "Lima is the capital of Peru" is right where "Lima" is
    expected.

    Args:
        settings: The suite's; they come back as they are where they say it, or a reference is long.
        cases: The suite's.
    """
    if settings.success is not None:
        return settings
    short = False
    for case in cases:
        for reference in case.references:
            if len(reference.split()) > SHORT_WORDS:
                return settings
            short = True
    return msgspec.structs.replace(settings, success=SuccessRule(contains="any")) if short else settings


def contains(text: str, wanted: str, *, ignore_case: bool = True) -> bool:
    """Whether a text stands in another as whole words, whatever the white space.

    ``no`` is not in ``I know``, nor ``4`` in ``42``. In scripts without capitals (Chinese, Thai, Arabic, …),
    in which words are not always set apart, it may stand anywhere.
    """
    folded, needle = (" ".join((each.casefold() if ignore_case else each).split()) for each in (text, wanted))
    if not needle:
        return not folded
    at = folded.find(needle)
    while at >= 0:
        end = at + len(needle)
        before = at > 0 and _one_word(folded[at - 1], needle[0])
        if not before and not (end < len(folded) and _one_word(needle[-1], folded[end])):
            return True
        at = folded.find(needle, at + 1)
    return False


def _one_word(left: str, right: str) -> bool:
    """Whether two neighbouring characters belong to one word."""
    return all(each.isdigit() or each.lower() != each.upper() for each in (left, right))


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= QUOTED else f'"{line[:QUOTED]}…"'


def _either(texts: Sequence[str]) -> str:
    first = _quoted(texts[0])
    return first if len(texts) == 1 else f"{first} (or {len(texts) - 1} other references)"


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
    """The answer of a predicate in [0, 1]: a truth value, or a number for partial success."""
    if isawaitable(answer):
        raise TypeError("the predicate is a coroutine; expected a plain function")
    if isinstance(answer, Real):
        number = float(answer)
        if 0 <= number <= 1:
            return number
        raise ValueError(f"the predicate returned {answer}, expected True, False or a number in [0, 1]")
    return float(bool(answer))


def time_score(seconds: float) -> float:
    """1 up to a second, then 1 / (1 + ln t): 0.43 at 4 s, 0.2 at 55 s.

    Args:
        seconds: Wall time, 0 or more.

    Returns:
        In (0, 1], falling, continuous.
    """
    return 1.0 if seconds <= 1 else 1 / (1 + math.log(seconds))


@metric("time")
class Time(Metric):
    """How quick the attempt was; ``raw`` is its wall time in seconds."""

    def score(self, metric_input: MetricInput) -> Score:
        """The score of the attempt's seconds."""
        seconds = metric_input.attempt.seconds
        if seconds is None:
            raise Skip("nobody measured the attempt's time")
        if not (math.isfinite(seconds) and seconds >= 0):
            raise Skip(f"the attempt's time is no duration: {seconds} s")
        return self.ok(time_score(seconds), raw=seconds)
