"""Checks what an agent does in single turns of a conversation.

Definition: docs/definitions/conversations.md#turn-success.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from trivium.agents.attempt import Attempt
from trivium.metrics.graph.matching import counted_calls, match
from trivium.metrics.metric import Metric, MetricInput, Score, Skip
from trivium.metrics.registry import metric
from trivium.metrics.text.matching import contains
from trivium.suites.case import ExpectTurn
from trivium.suites.settings import Settings, ToolSettings
from trivium.traces.trace import TURN, Span
from trivium.values import text_or_json


@metric("turn_success", case_fields=("expect.turns",))
class TurnSuccess(Metric):
    """The share of turns with expectations in which the agent met all of them.

    Definition: docs/definitions/conversations.md#turn-success.

    ``detail`` has, by the number of the turn, whether they were met and what was missed.

    Attributes:
        tools: How tool calls are interpreted.
    """

    tools: ToolSettings = ToolSettings()

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Make the metric with the suite's interpretation of tool calls."""
        return cls(tools=settings.tools)

    def score(self, metric_input: MetricInput) -> Score:
        """Score one conversation."""
        expected, attempt = metric_input.case.expect.turns or {}, metric_input.attempt
        if not expected:
            raise Skip("the case expects nothing of a single turn")
        if not attempt.messages:
            raise Skip("the messages of the conversation were not recorded")
        calls = _calls(attempt, self.tools)
        if calls is None and any(turn.tools is not None for turn in expected.values()):
            raise Skip("turns expect tool calls, and no trace was recorded")
        missed: dict[str, list[str]] = {}
        for number in sorted(expected, key=int):
            replies = [
                text_or_json(message.content, canonical=True)
                for message in attempt.messages
                if message.turn == int(number) and message.role == "assistant"
            ]
            made = (calls or {}).get(int(number), [])
            missed[number] = _missed(expected[number], replies, made, self.tools)
        met = sum(not each for each in missed.values())
        wrong = [f"turn {number}: {why}" for number, each in missed.items() for why in each]
        detail: Mapping[str, Any] = {
            number: {"met": not each, **({"missed": each} if each else {})} for number, each in missed.items()
        }
        return self.ok(met / len(expected), reason="; ".join(wrong) or None, detail={"turns": detail})


def _calls(attempt: Attempt, tools: ToolSettings) -> dict[int, list[Span]] | None:
    """The tool calls of each turn; None without a trace."""
    if attempt.trace is None:
        return None
    found: dict[int, list[Span]] = {}
    for call in counted_calls(attempt.trace, tools):
        turn = call.attributes.get(TURN)
        found.setdefault(turn if isinstance(turn, int) else 0, []).append(call)
    return found


def _missed(
    expected: ExpectTurn, replies: Sequence[str], calls: Sequence[Span], tools: ToolSettings
) -> list[str]:
    if not replies:
        return ["the conversation has no such turn, or no reply in it"]
    said = "\n".join(replies)
    found = [f'"{text}" is not in the reply' for text in expected.contains if not contains(said, text)]
    found += [f'"{text}" is in the reply' for text in expected.lacks if contains(said, text)]
    if expected.tools is not None:
        matching = match(
            calls, [each for each in expected.tools if each.name not in tools.ignore], tools.match
        )
        found += [f"{each.name} was not called as expected" for each in matching.missing]
        if not expected.tools:
            found += [f"{each.name} was called, and no call is expected" for each in matching.extra]
        if tools.match == "ordered" and not matching.missing and matching.matched < matching.expected:
            found.append("the tools were called in another order")
    return found
