"""Matches the tool calls of a trace with those that a case expects."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import msgspec

from trivium.suites.case import Case, ExpectedTool
from trivium.suites.settings import ToolSettings
from trivium.traces.trace import Span, Trace, canonical


class Matching(msgspec.Struct, frozen=True):
    """How calls made meet calls expected.

    Attributes:
        made: Number of calls made.
        expected: Number of calls expected.
        matched: Number of calls that are both.
        missing: Expected calls that were not made.
        extra: Calls made that were not expected.
    """

    made: int
    expected: int
    matched: int
    missing: tuple[ExpectedTool, ...]
    extra: tuple[Span, ...]

    @property
    def precision(self) -> float:
        """Matched / made; 1 when none was made."""
        return self.matched / self.made if self.made else 1.0

    @property
    def recall(self) -> float:
        """Matched / expected; 1 when none was expected."""
        return self.matched / self.expected if self.expected else 1.0

    @property
    def f1(self) -> float:
        """2 · matched / (made + expected); 1 when both are none."""
        both = self.made + self.expected
        return 2 * self.matched / both if both else 1.0


def case_matching(trace: Trace, case: Case, tools: ToolSettings) -> Matching | None:
    """The matching of a trace with what its case expects, or None when nothing is known."""
    expected = case.expect.tools
    if expected is None:
        return None
    found, of = cached(
        trace, ("matching", tools.ignore, tools.match), lambda: _of_case(trace, expected, tools)
    )
    # A trace scored against another case is matched anew.
    return found if of is expected else _of_case(trace, expected, tools)[0]


def _of_case(
    trace: Trace, expected: Sequence[ExpectedTool], tools: ToolSettings
) -> tuple[Matching, Sequence[ExpectedTool]]:
    wanted = [tool for tool in expected if tool.name not in tools.ignore] if tools.ignore else expected
    return match(counted_calls(trace, tools), wanted, tools.match), expected


def match(made: Sequence[Span], expected: Sequence[ExpectedTool], how: str) -> Matching:
    """Matches calls one to one.

    Args:
        made: In order.
        expected: In order. Without arguments, any will do.
        how: ``names`` and ``arguments`` take the multiset intersection of the names, or of names with
            arguments; ``ordered`` the longest common subsequence of the names, where ``missing`` and
            ``extra`` stay those of ``names``.
    """
    if how == "arguments":
        return _by_arguments(made, expected)
    found = _by_name(made, expected)
    if how == "names":
        return found
    matched = lcs_length([call.name for call in made], [tool.name for tool in expected])
    return msgspec.structs.replace(found, matched=matched)


def _by_name(made: Sequence[Span], expected: Sequence[ExpectedTool]) -> Matching:
    open_: dict[str, list[ExpectedTool]] = {}
    for tool in reversed(expected):
        open_.setdefault(tool.name, []).append(tool)
    extra = []
    for call in made:
        waiting = open_.get(call.name)
        if waiting:
            waiting.pop()
        else:
            extra.append(call)
    return _matching(made, expected, open_, extra)


def _by_arguments(made: Sequence[Span], expected: Sequence[ExpectedTool]) -> Matching:
    exact: dict[tuple[str, bytes], list[ExpectedTool]] = {}
    for tool in reversed(expected):
        if tool.arguments is not None:
            exact.setdefault((tool.name, canonical(tool.arguments)), []).append(tool)
    left = []
    for call in made:
        waiting = exact.get((call.name, canonical(call.input))) if exact else None
        if waiting:
            waiting.pop()
        else:
            left.append(call)
    # What any arguments will do for takes of the rest; exact ones first, so that the most are matched.
    rest = _by_name(left, [tool for tool in expected if tool.arguments is None])
    open_ = {None: [tool for waiting in exact.values() for tool in waiting] + list(rest.missing)}
    return _matching(made, expected, open_, list(rest.extra))


def _matching(
    made: Sequence[Span],
    expected: Sequence[ExpectedTool],
    open_: dict[Any, list[ExpectedTool]],
    extra: list[Span],
) -> Matching:
    missing = [tool for waiting in open_.values() for tool in reversed(waiting)]
    return Matching(len(made), len(expected), len(made) - len(extra), tuple(missing), tuple(extra))


def counted_names(items: Sequence[Span] | Sequence[ExpectedTool]) -> dict[str, int]:
    """How often each tool occurs."""
    return dict(Counter(item.name for item in items))


ALL_CALLS = ToolSettings()


def counted_calls(trace: Trace, tools: ToolSettings) -> tuple[Span, ...]:
    """Tool calls ordered by start, without those that the suite ignores."""
    if not tools.ignore:
        return trace.tool_calls
    return cached(
        trace,
        ("calls", tools.ignore),
        lambda: tuple(call for call in trace.tool_calls if call.name not in tools.ignore),
    )


def tool_sequence(trace: Trace, tools: ToolSettings = ALL_CALLS) -> tuple[str, ...]:
    """Names of the tools called, in order."""
    return cached(
        trace,
        ("sequence", tools.ignore),
        lambda: tuple([call.name for call in counted_calls(trace, tools)]),
    )


def tool_walks(trace: Trace, tools: ToolSettings) -> list[tuple[str, ...]]:
    """The tool sequences that the tool graph is made of: one, or with ``by: agent`` one an agent."""
    if tools.by == "run":
        sequence = tool_sequence(trace, tools)
        return [sequence] if sequence else []
    walks: dict[str | None, list[str]] = {}
    for call in counted_calls(trace, tools):
        walks.setdefault(call.agent, []).append(call.name)
    return [tuple(walk) for walk in walks.values()]


def logical_calls(trace: Trace, tools: ToolSettings) -> int:
    """Number of calls, with a retry and what it retries counted as one.

    A retry is a call of the same tool as the call before it of the same agent, when that one failed.
    """
    return cached(trace, ("logical", tools.ignore), lambda: _without_retries(counted_calls(trace, tools)))


def _without_retries(calls: Sequence[Span]) -> int:
    retries = 0
    latest: dict[str | None, Span] = {}
    for call in calls:
        before = latest.get(call.agent)
        if before is not None and before.ok is False and before.name == call.name:
            retries += 1
        latest[call.agent] = call
    return len(calls) - retries


def lcs_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence.

    Bit-parallel over the shorter sequence (Hyyrö, "Bit-parallel LCS-length computation revisited",
    2004): 50,000 against 50,000 calls take a fraction of a second.
    """
    if len(first) > len(second):
        first, second = second, first
    places: dict[Hashable, int] = {}
    for index, item in enumerate(first):
        places[item] = places.get(item, 0) | 1 << index
    everything = (1 << len(first)) - 1
    open_places = everything
    for item in second:
        hits = open_places & places.get(item, 0)
        if hits:
            open_places = (open_places + hits | open_places - hits) & everything
    return len(first) - open_places.bit_count()


T = TypeVar("T")


def cached(trace: Trace, key: Hashable, make: Callable[[], T]) -> T:
    """What ``make`` gives, from the second time on as it was given first.

    Args:
        trace: The trace that it is worked out of.
        key: Everything else that it depends on.
        make: Called the first time.
    """
    cache: dict[Hashable, Any] = trace.__dict__.setdefault("_once", {})
    try:
        value: T = cache[key]
    except KeyError:
        value = cache[key] = make()
    return value
