"""Moved cases to draw and print, held in memory."""

from typing import Any

from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Composite, Evaluation
from trivium.metrics.metric import Score
from trivium.runs.comparing.moved_cases import CaseChange, MovedCase, MovedCases, ScoredAttempt
from trivium.suites.case import Case
from trivium.traces.trace import Span, Trace

HOSTILE = "<script>alert(1)</script>|`x`\x1b[31m\u202e@all\n# head\n\n</details> **b** &amp;"


def calls(*names: str) -> Trace:
    """A trace with these tool calls, each named ``tool argument``."""
    spans = (
        Span(id=str(at), kind="tool", name=name.split()[0], input={"q": name})
        for at, name in enumerate(names)
    )
    return Trace(spans=tuple(spans))


def scored(
    output: Any, *, passed: bool | None = True, reason: str | None = None, **fields: Any
) -> ScoredAttempt:
    """An attempt with a verdict and, if there is a reason, a judgement."""
    judged = Score(name="clarity", tier="judge", value=float(bool(passed)), reason=reason)
    return ScoredAttempt(
        attempt=Attempt(case="c", output=output, **fields),
        evaluation=Evaluation(
            case="c",
            repeat=0,
            scores={} if reason is None else {"clarity": judged},
            composite=Composite(value=None, parts={}),
            passed=passed,
        ),
    )


def moved_case(name: str, base: ScoredAttempt, head: ScoredAttempt, **fields: Any) -> MovedCase:
    """A case that got worse unless ``better``."""
    better = fields.pop("better", False)
    change = CaseChange(
        case=name,
        by="pass_rate",
        better=better,
        values={"pass_rate": (1 - better, 0.0 + better)},
        **fields.pop("tried", {}),
    )
    given: dict[str, Any] = {"input": "What is the capital of Peru?", "references": ("Lima",)}
    return MovedCase(
        change=change,
        case=Case(id=name, **given | fields.pop("case", {})),
        base=base,
        head=head,
        **{"repeats": 1} | fields,
    )


def moved_cases(*cases: MovedCase) -> MovedCases:
    """All of these cases."""
    better = sum(each.change.better for each in cases)
    found = MovedCases(
        by=("pass_rate",),
        compared=60,
        better=better,
        worse=len(cases) - better,
        changes=tuple(each.change for each in cases),
    )
    found.__dict__["reader"] = lambda places: [cases[place] for place in places]
    return found


def calm() -> MovedCases:
    """A case that got worse, with everything that a report can show, and one that got better."""
    worse = moved_case(
        "q3",
        scored(
            "The capital of Peru is Lima.", reason="It is right.", trace=calls("search peru", "read lima")
        ),
        scored(
            "The capital of Peru is Cusco.",
            passed=False,
            reason="Cusco is not the capital.",
            trace=calls("search peru", "search peru"),
        ),
    )
    better = moved_case("q4", scored(None, passed=False, error="TimeoutError"), scored("Lima"), better=True)
    return moved_cases(worse, better)


def hostile() -> MovedCases:
    """Every text that comes from elsewhere says what it should not."""
    trace = calls(HOSTILE, HOSTILE)
    texts = {"case": {"input": HOSTILE, "references": (HOSTILE,)}}
    return moved_cases(
        moved_case(
            HOSTILE,
            scored(HOSTILE, reason=HOSTILE, trace=trace),
            scored(f"{HOSTILE} {HOSTILE}", reason=f"not {HOSTILE}", trace=calls(HOSTILE)),
            **texts,
        ),
        moved_case(f"{HOSTILE}2", scored(None, error=HOSTILE), scored({HOSTILE: [HOSTILE]}), **texts),
    )
