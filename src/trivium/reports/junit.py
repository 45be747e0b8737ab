"""Writes a run or a comparison as JUnit XML for CI systems; each attempt, or case that moved, is a test."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from typing import IO, TYPE_CHECKING, Any

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


def junit_parts(summary: Summary, evaluations: Iterable[EvaluationView]) -> Iterator[str]:
    """The run as JUnit XML, part by part, in bounded memory.

    A test is named by its case and the beginning of the input. A failed attempt is an ``error``, one that did
    not pass a ``failure``, one without a verdict ``skipped``. Its scores, input, expected outputs and output
    are in ``system-out``; that of the suite is the report. Gates form a suite of their own, in which an
    inconclusive gate is ``skipped`` with its reason. Missing attempts are one ``error``.
    """
    counts: Counter[str] = Counter()
    total = 0.0
    # A suite starts with its counts, which are known only at its end.
    with tempfile.SpooledTemporaryFile(SPOOL_BYTES, "w+", encoding="utf-8") as spool:
        for view in evaluations:
            spool.write(_attempt(view, suite=summary.suite))
            counts[view.verdict] += 1
            total += view.attempt.seconds or 0.0
        if summary.missing:
            spool.write(_missing(summary))
            counts["error"] += 1
        gates = [_gate(gate) for gate in summary.gates]
        answers = Counter(gate.answer for gate in summary.gates)
        yield '<?xml version="1.0" encoding="UTF-8"?>\n'
        yield (
            f'<testsuites name="trivium" tests="{sum(counts.values()) + len(gates)}" '
            f'failures="{counts["failed"] + answers["fail"]}" errors="{counts["error"]}" '
            f'time="{total:.3f}">\n'
        )
        yield _open_suite(
            summary.suite,
            tests=sum(counts.values()),
            failures=counts["failed"],
            errors=counts["error"],
            skipped=counts["undecided"],
            time=total,
        )
        yield _properties(summary)
        spool.seek(0)
        yield from _read(spool)
        yield _report(describe(summary, "comment"))
        yield "</testsuite>\n"
        if gates:
            passed, failed = answers["pass"], answers["fail"]
            yield _open_suite(
                f"{summary.suite} gates",
                tests=len(gates),
                failures=failed,
                errors=0,
                skipped=len(gates) - passed - failed,
                time=0.0,
            )
            yield from gates
            yield "</testsuite>\n"
        yield "</testsuites>\n"


def _read(spool: IO[str]) -> Iterator[str]:
    while part := spool.read(_COPY_CHARS):
        yield part


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


def _open_suite(name: str, *, tests: int, failures: int, errors: int, skipped: int, time: float) -> str:
    return (
        f'<testsuite name="{_xml(name)}" tests="{tests}" failures="{failures}" errors="{errors}" '
        f'skipped="{skipped}" time="{time:.3f}">\n'
    )


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


def _attempt(view: EvaluationView, *, suite: str) -> str:
    reason = _xml(view.reason or _without_reason(view))
    inner = {
        "error": f'<error message="{reason}"/>',
        "failed": f'<failure message="{reason}"/>',
        "undecided": f'<skipped message="{reason}"/>',
        "passed": "",
    }[view.verdict]
    figures = {key: _figure(score) for key, score in view.scores.items() if score.value is not None}
    if view.composite_shown:
        figures["composite"] = wording.number(view.composite.value)
    lines = "".join(f"{_xml(key)}: {value}&#10;" for key, value in figures.items())
    return (
        f'<testcase classname="{_xml(suite)}" name="{_name(view.case, view.attempt.repeat)}" '
        f'time="{view.attempt.seconds or 0.0:.3f}">'
        f"{inner}<system-out>{lines}&#10;input: {_xml(_text(view.case.input_shown))}&#10;&#10;"
        f"{_expected(view.case)}output: {_xml(_text(view.attempt.shown))}</system-out></testcase>\n"
    )


def _name(case: Case, repeat: int = 0) -> str:
    """The name of a test: id and repeat, and the beginning of the input."""
    name = wording.attempt_name(case.id, repeat)
    question = one_line(_text(case.input_shown), at_most=QUESTION_CHARS)
    return _xml(f"{name}: {question}" if question not in {"", name} else name)


def _expected(case: Case) -> str:
    """What the case expects: ``expect.output``, or its first references; empty if it states neither."""
    texts = case.references if case.expect.output_text is None else (case.expect.output_text,)
    shown = [_xml(_text(text)) for text in texts[:EXPECTED_SHOWN]]
    more = len(texts) - len(shown)
    shown += [f"… and {wording.counted(more, 'more reference')}"] if more else []
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


def _missing(summary: Summary) -> str:
    text = f"{summary.missing:,} of {wording.counted(summary.total_tests, 'expected attempt')} are missing"
    return (
        f'<testcase classname="{_xml(summary.suite)}" name="missing attempts" time="0.000">'
        f'<error message="{text}"/></testcase>\n'
    )


def _gate(gate: GateAnswer) -> str:
    return _answered("gates", _xml(gate.gate), gate.answer, f"{gate.answer}: {wording.gate_sentence(gate)}")


def _answered(group: str, name: str, answer: str, words: str) -> str:
    """A test with an escaped name that passed or failed; with any other answer it is skipped."""
    message = _xml(words)
    inner = {"pass": f"<system-out>{message}</system-out>", "fail": f'<failure message="{message}"/>'}.get(
        answer, f'<skipped message="{message}"/>'
    )
    return f'<testcase classname="{_xml(group)}" name="{name}" time="0.000">{inner}</testcase>\n'


_ANSWERS = {"broke": "fail", "flaky": "inconclusive", "unclear": "inconclusive"}


def comparison_junit(comparison: "Comparison") -> Iterator[str]:
    """A comparison as JUnit XML, part by part: a test for the answer, and one for each case that moved.

    A case that broke is a ``failure``; one that is flaky or unclear is ``skipped``; all others passed. The
    ``system-out`` of the suite is the report.
    """
    moved, answer = comparison.moved_cases, comparison.answer
    failures = (answer == "fail") + moved.states.get("broke", 0)
    skipped = (answer not in {"pass", "fail"}) + sum(
        moved.states.get(each, 0) for each in ("flaky", "unclear")
    )
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="trivium">\n'
    title, tests = f"{comparison.suite} against {comparison.base}", 1 + len(moved)
    yield _open_suite(title, tests=tests, failures=failures, errors=0, skipped=skipped, time=0.0)
    from trivium.reports.comparison import answer as answer_of
    from trivium.reports.comparison import describe as describe_comparison

    said = answer_of(comparison).lines
    yield _answered("comparison", "answer", answer, f"{answer}. {' '.join(said)}")
    for each in moved:
        change = each.change
        word = change.state or ("better" if change.better else "worse")
        words = f"{word}: {change.why or f'{change.by} changed'}"
        yield _answered(comparison.suite, _name(each.case), _ANSWERS.get(word, "pass"), words)
    yield _report(describe_comparison(comparison, "comment", cases=0))
    yield "</testsuite>\n</testsuites>\n"
