"""The metric ``state_match``: what an agent left, and did, compared with what its case expects.

Definition: docs/definitions/worlds.md#state-match.
"""

from collections.abc import Iterator, Sequence

from trivium.agents.attempt import Attempt, StateCheck
from trivium.agents.worlds.checks import forbidden_calls
from trivium.metrics.metric import INCOMPLETE_TRACE, Metric, MetricInput, Score, Skip
from trivium.metrics.registry import metric
from trivium.suites.case import Case, Expect, ExpectedTool
from trivium.traces.trace import TURN, Span

REASONS_SHOWN = 3
"""Checks that failed, or that could not be made, which a reason names."""


@metric("state_match", case_fields=("expect.state", "expect.never"))
class StateMatch(Metric):
    """The share of the expectations about the end of the world, and about calls never to make, that hold.

    Definition: docs/definitions/worlds.md#state-match.
    """

    def score(self, metric_input: MetricInput) -> Score:
        """Score one attempt; ``detail`` has each expectation."""
        made = state_checks(metric_input.case, metric_input.attempt)
        unknown = [each for each in made if each.ok is None]
        if unknown:
            return self.skipped(_reasons(unknown), missing=True)
        failed = [each for each in made if not each.ok]
        detail = {
            "holds": [each.what for each in made if each.ok],
            "fails": [f"{each.what}: {each.reason}" for each in failed],
        }
        return self.ok(1 - len(failed) / len(made), reason=_reasons(failed) or None, detail=detail)


def success_by_state(metric: Metric, metric_input: MetricInput) -> Score | None:
    """Whether all that a case expects of the state and the calls holds; None if it expects nothing.

    One expectation that fails decides; without one, those that could not be checked make the score missing.
    """
    try:
        made = state_checks(metric_input.case, metric_input.attempt)
    except Skip as none:
        case = metric_input.case.expect
        expects = case.state is not None or case.never is not None
        return metric.skipped(str(none), missing=True) if expects else None
    failed = [each for each in made if each.ok is False]
    unknown = [each for each in made if each.ok is None]
    if unknown and not failed:
        return metric.skipped(_reasons(unknown), missing=True)
    return metric.ok(float(not failed), method="state", reason=_reasons(failed) or None)


def state_checks(case: Case, attempt: Attempt) -> list[StateCheck]:
    """What became of each expectation of a case about the state and the calls.

    Raises:
        Skip: If the case expects nothing, or nothing is known of the attempt's world.
    """
    expect, record = case.expect, attempt.world
    if expect.state is None and expect.never is None:
        raise Skip("the case expects nothing of the state")
    if record is None and _about_state(expect):
        raise Skip("no state was recorded: the suite has no world")
    found = [] if expect.never is None else list(_calls(expect.never.tools, attempt))
    found += () if record is None else record.checks
    if not found:
        raise Skip("the case expects nothing of the state")
    return found


def _about_state(expect: Expect) -> bool:
    never = expect.never
    if never is None:
        return True
    return expect.state is not None or bool(never.changes or never.values or never.query or never.function)


def _calls(never: Sequence[str | ExpectedTool], attempt: Attempt) -> Iterator[StateCheck]:
    """What the world's own tools and the trace show of calls never to make; either is enough.

    What a record says counts for the expectation that it names only: it may have been made for other ones.
    """
    trace, record = attempt.trace, attempt.world
    known = () if record is None or record.calls is None else record.calls
    calls = () if trace is None else trace.tool_calls
    made = [(span.name, span.input, _turn(span)) for span in calls]
    whole = trace is not None and trace.missing_part is None
    for place, traced in enumerate(forbidden_calls(never, made)):
        by_world = next((each for each in known[place : place + 1] if each.what == traced.what), None)
        if traced.ok is False or by_world is None:
            why = "no trace was recorded" if trace is None else f"{INCOMPLETE_TRACE}{trace.missing_part}"
            unknown = StateCheck(what=traced.what, reason=why)
            yield traced if traced.ok is False or whole else unknown
        else:
            yield by_world


def _turn(span: Span) -> int:
    turn = span.attributes.get(TURN)
    return turn if isinstance(turn, int) else 0


def _reasons(checks: Sequence[StateCheck]) -> str:
    shown = [f"{each.what}: {each.reason}" for each in checks[:REASONS_SHOWN]]
    more = len(checks) - len(shown)
    return "; ".join([*shown, f"and {more} more"] if more > 0 else shown)
