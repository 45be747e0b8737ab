"""Metrics of Opik as metrics of Trivium.

Importing this module before ``opik`` turns off what Opik reports of its own use and errors; who wants to
report sets ``OPIK_ANALYTICS_ENABLE`` and ``OPIK_SENTRY_ENABLE`` to true before. A metric made with
``track=False`` sends no traces of its own either.
"""

import os
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

from trivium.errors import MissingExtra
from trivium.integrations.pairing import Verdict, as_text, foreign_metric, share
from trivium.metrics.metric import Metric, Skip, Subject

os.environ.setdefault("OPIK_ANALYTICS_ENABLE", "false")
os.environ.setdefault("OPIK_SENTRY_ENABLE", "false")

_REFERENCES = frozenset({"reference", "expected_output", "ground_truth"})


def opik_metric(
    name: str, make: Callable[[], Any], *, lower_is_better: bool = False, references: str = "best"
) -> type[Metric]:
    """A metric of Opik as one that suites may name.

    Its ``score`` is given what its parameters are called for: ``input``, ``output``, ``reference`` or
    ``expected_output``, ``context`` (the case's source) and ``metadata``. One that it demands and the attempt
    lacks makes the score skipped. Of several results the mean is taken, and each is kept.

    Args:
        name: How suites and reports call it, such as ``opik.contains``.
        make: Makes the metric; called once.
        lower_is_better: Whether 0 is best there, as for hallucination.
        references: With several references, ``best`` or ``mean``.

    Raises:
        MissingExtra: If Opik is not installed.
    """
    try:
        import opik  # noqa: F401 - said here, not in the midst of a run
    except ImportError:
        raise MissingExtra("opik", name) from None
    made: list[Any] = []

    def metric() -> Any:
        if not made:
            made.append(make())
        return made[0]

    def compares() -> bool:
        return bool(_REFERENCES & set(signature(metric().score).parameters))

    def judge(subject: Subject, reference: str | None) -> Verdict:
        given = _given(subject, reference)
        wanted = signature(metric().score).parameters.values()
        lacking = [
            each.name
            for each in wanted
            if each.default is Parameter.empty
            and each.kind not in {Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL}
            and given.get(each.name) is None
        ]
        if lacking:
            raise Skip(f"the metric needs {', '.join(lacking)}, which the case and the attempt do not have")
        names = {each.name for each in wanted}
        answer = metric().score(
            **{key: value for key, value in given.items() if key in names and value is not None}
        )
        results = answer if isinstance(answer, list) else [answer]
        failed = next((each for each in results if getattr(each, "scoring_failed", False)), None)
        if failed is not None or not results:
            raise RuntimeError(failed.reason if failed is not None else "the metric gave no result")
        values = [share(each.value, lower_is_better=lower_is_better) for each in results]
        known = [value for value in values if value is not None]
        detail = {each.name: each.value for each in results} if len(results) > 1 else {}
        reasons = [each.reason for each in results if each.reason]
        raw = [each.value for each in results] if len(results) > 1 else results[0].value
        return sum(known) / len(known) if known else None, raw, "; ".join(reasons) or None, detail

    return foreign_metric(name, judge, compares=compares, references=references)


def _given(subject: Subject, reference: str | None) -> dict[str, Any]:
    case = subject.case
    return {
        "input": as_text(case.input),
        "output": subject.attempt.text,
        **dict.fromkeys(_REFERENCES, reference),
        "context": [case.source] if case.source is not None else None,
        "metadata": dict(case.metadata),
    }
