"""Writes a run or a comparison as JUnit XML for CI systems; each attempt, or case that moved, is a test."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from html import escape
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from trivium.display import as_text
from trivium.metrics.evaluation import is_judge_fallback
from trivium.metrics.metric import Score
from trivium.reports import wording
from trivium.reports.document.blocks import Block
from trivium.reports.document.terminal import Printed
from trivium.reports.summary import describe
from trivium.reports.view import EvaluationView
from trivium.runs.summary import GateAnswer, Summary
from trivium.safe_text import as_json, one_line, visible
from trivium.suites.case import Case
from trivium.values import counted

if TYPE_CHECKING:
    from trivium.runs.comparing.comparison import Comparison

EXPECTED_SHOWN = 3
"""Most references of a case that are written."""
TEXT_CHARS = 4_000
"""Longest reason, input or output in characters; longer ones are cut."""
QUESTION_CHARS = 100
"""Longest beginning of an input in the name of a test."""
REPORT_COLUMNS = 120
"""Width of the report that a suite prints."""
SPOOL_BYTES = 4_000_000
_COPY_CHARS = 65_536


Outcome = Literal["", "error", "failure", "skipped"]
"""The element that says what became of a test; empty if it passed."""


class _Test(NamedTuple):
    """A test; its output is XML."""

    group: str
    name: str
    outcome: Outcome
    message: str = ""
    output: str = ""
    seconds: float = 0.0

    def written(self) -> str:
        inner = f'<{self.outcome} message="{_xml(self.message)}"/>' if self.outcome else ""
        output = f"<system-out>{self.output}</system-out>" if self.output else ""
        names = f'classname="{_xml(self.group)}" name="{_xml(self.name)}"'
        return f'<testcase {names} time="{self.seconds:.3f}">{inner}{output}</testcase>\n'


class _Suite(NamedTuple):
    """Tests under a name, with what is known of all of them and what they print."""

    name: str
    tests: Iterable[_Test]
    properties: str = ""
    report: str = ""


def _document(*suites: _Suite) -> Iterator[str]:
    """Suites as JUnit XML, part by part, in bounded memory."""
    with ExitStack() as spools:
        found, counted = [], []
        for suite in suites:  # what is written starts with counts, which are known only at its end
            written = tempfile.SpooledTemporaryFile(SPOOL_BYTES, "w+", encoding="utf-8")  # noqa: SIM115
            found.append((suite, spool := spools.enter_context(written)))
            counts, seconds = Counter[str](), 0.0
            for test in suite.tests:
                spool.write(test.written())
                counts.update(("tests", test.outcome))
                seconds += test.seconds
            counted.append((counts, seconds))
        total = sum((counts for counts, _ in counted), start=Counter[str]())
        yield '<?xml version="1.0" encoding="UTF-8"?>\n'
        yield f'<testsuites name="trivium" {_counts(total, sum(seconds for _, seconds in counted))}>\n'
        for (suite, spool), (counts, seconds) in zip(found, counted, strict=True):
            yield f'<testsuite name="{_xml(suite.name)}" {_counts(counts, seconds)}>\n{suite.properties}'
            spool.seek(0)
            yield from iter(partial(spool.read, _COPY_CHARS), "")
            yield f"{suite.report}</testsuite>\n"
        yield "</testsuites>\n"


def _counts(counts: Counter[str], seconds: float) -> str:
    named = {"tests": "tests", "failures": "failure", "errors": "error", "skipped": "skipped"}
    return " ".join([*(f'{name}="{counts[of]}"' for name, of in named.items()), f'time="{seconds:.3f}"'])


def junit_parts(summary: Summary, evaluations: Iterable[EvaluationView]) -> Iterator[str]:
    """The run as JUnit XML, part by part, in bounded memory.

    A test is named by its case and the beginning of the input. A failed attempt is an ``error``, one that did
    not pass a ``failure``, one without a verdict ``skipped``. Its scores, input, expected outputs and output
    are in ``system-out``; that of the suite is the report. Gates form a suite of their own, in which an
    inconclusive gate is ``skipped`` with its reason. Missing attempts are one ``error``.
    """
    tests = chain((_attempt(view, suite=summary.suite) for view in evaluations), _missing(summary))
    suites = [_Suite(summary.suite, tests, _properties(summary), _report(describe(summary, "comment")))]
    if summary.gates:
        suites.append(_Suite(f"{summary.suite} gates", map(_gate, summary.gates)))
    yield from _document(*suites)


def _report(blocks: Iterable[Block]) -> str:
    """What a suite prints: the report as a wide terminal shows it."""
    text = as_text(Printed(blocks), width=REPORT_COLUMNS)
    return f"<system-out>{_xml(text, at_most=len(text))}</system-out>\n"


def _xml(text: str, *, at_most: int = TEXT_CHARS) -> str:
    """Text for an attribute or an element, escaped, with characters invalid in XML made visible."""
    shown = visible(text[:at_most])
    if len(text) > at_most:
        shown += f"… ({len(text) - at_most:,} further characters)"
    return escape(shown).replace("\n", "&#10;").replace("\t", "&#9;")


def _properties(summary: Summary) -> str:
    named = {"run": summary.run, "pass_rate": wording.number(summary.pass_rate.value)}
    if summary.spent is not None:
        named["judges"] = ", ".join(map(wording.judge_name, summary.spent.models))
    named |= {
        f"mean.{name}": wording.number(figure.mean)
        for name, figure in wording.measured_metrics(summary).items()
    }
    named |= {f"warning.{place}": text for place, text in enumerate(summary.warnings, 1)}
    rows = "".join(f'<property name="{_xml(name)}" value="{_xml(text)}"/>\n' for name, text in named.items())
    return f"<properties>\n{rows}</properties>\n"


_OUTCOMES: dict[str, Outcome] = {"error": "error", "failed": "failure", "undecided": "skipped", "passed": ""}


def _attempt(view: EvaluationView, *, suite: str) -> _Test:
    figures = {key: _figure(score) for key, score in view.scores.items() if score.value is not None}
    if view.composite_shown:
        figures["composite"] = wording.number(view.composite.value)
    lines = "".join(f"{_xml(key)}: {value}&#10;" for key, value in figures.items())
    asked, answered = _xml(_text(view.case.input_shown)), _xml(_text(view.attempt.shown))
    output = f"{lines}&#10;input: {asked}&#10;&#10;{_expected(view.case)}output: {answered}"
    name, why = _name(view.case, view.attempt.repeat), view.reason or _without_reason(view)
    return _Test(suite, name, _OUTCOMES[view.verdict], why, output, view.attempt.seconds or 0.0)


def _name(case: Case, repeat: int = 0) -> str:
    """The name of a test: id and repeat, and the beginning of the input."""
    name = wording.attempt_name(case.id, repeat)
    question = one_line(_text(case.input_shown), at_most=QUESTION_CHARS)
    return f"{name}: {question}" if question not in {"", name} else name


def _expected(case: Case) -> str:
    """What the case expects: ``expect.output``, or its first references; empty if it states neither."""
    texts = case.references if case.expect.output_text is None else (case.expect.output_text,)
    shown = [_xml(_text(text)) for text in texts[:EXPECTED_SHOWN]]
    more = len(texts) - len(shown)
    shown += [f"… and {counted(more, 'more reference')}"] if more else []
    return "".join(f"expected: {each}&#10;&#10;" for each in shown)


def _figure(score: Score) -> str:
    """The value of a score; a fallback for a judgement is marked as such."""
    if is_judge_fallback(score):
        return f"not judged ({wording.number(score.value)} by {_xml(score.method or 'another way')})"
    return wording.number(score.value)


def _text(value: Any) -> str:
    """A string as it is, other values as JSON, None as an empty text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else as_json(value, indent=None)


def _without_reason(view: EvaluationView) -> str:
    return "did not pass" if view.verdict == "failed" else "the pass rule has no value"


def _missing(summary: Summary) -> Iterator[_Test]:
    if summary.missing:
        expected = counted(summary.total_tests, "expected attempt")
        words = f"{summary.missing:,} of {expected} are missing"
        yield _Test(summary.suite, "missing attempts", "error", words)


def _gate(gate: GateAnswer) -> _Test:
    return _answered("gates", gate.gate, gate.answer, f"{gate.answer}: {wording.gate_sentence(gate)}")


def _answered(group: str, name: str, answer: str, words: str) -> _Test:
    """A test that passed or failed; with any other answer it is skipped."""
    if answer == "pass":
        return _Test(group, name, "", output=_xml(words))
    return _Test(group, name, "failure" if answer == "fail" else "skipped", words)


_ANSWERS = {"broke": "fail", "flaky": "inconclusive", "unclear": "inconclusive"}


def comparison_junit(comparison: "Comparison") -> Iterator[str]:
    """A comparison as JUnit XML, part by part: a test for the answer, and one for each case that moved.

    A case that broke is a ``failure``; one that is flaky or unclear is ``skipped``; all others passed. The
    ``system-out`` of the suite is the report.
    """
    from trivium.reports.comparison import describe as describe_comparison

    title = f"{comparison.suite} against {comparison.base}"
    report = _report(describe_comparison(comparison, "comment", cases=0))
    yield from _document(_Suite(title, _compared(comparison), report=report))


def _compared(comparison: "Comparison") -> Iterator[_Test]:
    from trivium.reports.comparison import answer as answer_of

    said, answer = answer_of(comparison).lines, comparison.answer
    yield _answered("comparison", "answer", answer, f"{answer}. {' '.join(said)}")
    for each in comparison.moved_cases:
        change = each.change
        word = change.state or ("better" if change.better else "worse")
        words = f"{word}: {change.why or f'{change.by} changed'}"
        yield _answered(comparison.suite, _name(each.case), _ANSWERS.get(word, "pass"), words)
