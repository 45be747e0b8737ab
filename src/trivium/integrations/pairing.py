"""What metrics of other tools are given: texts of a case and an attempt, one reference after the other."""

from collections.abc import Callable
from typing import Any

import msgspec

from trivium.metrics.metric import Metric, Skip, Subject, metric
from trivium.metrics.score import Score

Verdict = tuple[float | None, Any, str | None, dict[str, Any]]
"""A value in [0, 1] or None, the raw figure, the reason given, and whatever else a report may show."""

Judge = Callable[[Subject, str | None], Verdict]
"""Scores a subject against one reference, or against none."""


def foreign_metric(
    name: str, judge: Judge, *, compares: Callable[[], bool], references: str = "best"
) -> type[Metric]:
    """A metric of another tool as a class that suites may name.

    Args:
        name: How suites and reports call it.
        judge: Asks the other tool.
        compares: Whether it looks at a reference; asked when the first attempt is scored.
        references: With several references, ``best`` takes the highest value, ``mean`` their mean.
    """
    if references not in {"best", "mean"}:
        raise ValueError(f'references: found "{references}", expected best or mean')

    @metric(name)
    class Foreign(Metric):
        """A metric of another tool."""

        def score(self, subject: Subject) -> Score:
            """What the other tool says, for each reference where it looks at one."""
            wanted: list[str | None] = list(subject.case.references) if compares() else [None]
            if not wanted:
                raise Skip("the case has no reference")
            verdicts = [judge(subject, reference) for reference in wanted]
            values = [value for value, *_ in verdicts if value is not None]
            raw = [figure for _, figure, *_ in verdicts] if len(verdicts) > 1 else verdicts[0][1]
            at = max(range(len(verdicts)), key=lambda index: _or_less(verdicts[index][0]))
            value = None if not values else max(values) if references == "best" else sum(values) / len(values)
            return self.ok(value, raw=raw, reason=verdicts[at][2], detail=verdicts[at][3])

    return Foreign


def _or_less(value: float | None) -> float:
    return -1.0 if value is None else value


def share(value: Any, *, lower_is_better: bool = False) -> float | None:
    """A figure as a value in [0, 1], higher better; None where it lies outside."""
    if isinstance(value, bool):
        value = float(value)
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return 1.0 - value if lower_is_better else float(value)


def as_text(value: Any) -> str:
    """A text as it is, any other JSON value as its canonical JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value, order="deterministic").decode()
