"""Matches the tool calls of a trace with those that a case expects."""

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from trivium.suites.case import Case, ExpectedTool
from trivium.suites.settings import ToolSettings
from trivium.traces.trace import Span, Trace, canonical

P = ParamSpec("P")
T = TypeVar("T")


def once(make: Callable[Concatenate[Trace, P], T]) -> Callable[Concatenate[Trace, P], T]:
    """Keep on a trace what a function computes of it and of further arguments, which are hashable."""

    @wraps(make)
    def kept(trace: Trace, /, *args: P.args, **options: P.kwargs) -> T:
        cache: dict[Hashable, T] = trace.__dict__.setdefault("_once", {})
        key = (make, *args, *options.items())
        if key not in cache:
            cache[key] = make(trace, *args, **options)
        return cache[key]

    return kept


class Matching(msgspec.Struct, frozen=True):
    """A one-to-one matching of the calls made with the expected calls.

    Definition: docs/definitions/traces.md#expected-calls.

    Attributes:
        made: Number of calls made.
        expected: Number of expected calls.
        matched: Number of matched calls.
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
        """Matched / made; 1 without calls."""
        return self.matched / self.made if self.made else 1.0

    @property
    def recall(self) -> float:
        """Matched / expected; 1 without expected calls."""
        return self.matched / self.expected if self.expected else 1.0

    @property
    def f1(self) -> float:
        """2 · matched / (made + expected); 1 without any calls."""
        both = self.made + self.expected
        return 2 * self.matched / both if both else 1.0


def case_matching(trace: Trace, case: Case, tools: ToolSettings) -> Matching | None:
    """Match the calls of a trace with those that its case expects; None if the case does not state them."""
    expected = case.expect.tools
    if expected is None:
        return None
    kept: dict[str, Any] = trace.__dict__
    if "_matching" not in kept or kept["_matching"][0] is not expected or kept["_matching"][1] != tools:
        wanted = [tool for tool in expected if tool.name not in tools.ignore]
        kept["_matching"] = expected, tools, match(counted_calls(trace, tools), wanted, tools.match)
    found: Matching = kept["_matching"][2]
    return found


def match(made: Sequence[Span], expected: Sequence[ExpectedTool], how: str) -> Matching:
    """Match calls one to one.

    Args:
        made: Calls made, in order.
        expected: Expected calls, in order. One without arguments matches any arguments.
        how: ``names`` is the multiset intersection by name, ``arguments`` by name and arguments;
            ``ordered`` is the longest common subsequence of the names, with ``missing`` and ``extra`` as for
            ``names``.
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
    # Calls with exact arguments are matched first and wildcards take the rest, which matches the most.
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
    """Count the calls of each tool."""
    counts: dict[str, int] = {}
    for item in items:
        counts[item.name] = counts.get(item.name, 0) + 1
    return counts


ALL_CALLS = ToolSettings()


def counted_calls(trace: Trace, tools: ToolSettings) -> tuple[Span, ...]:
    """Return the tool calls ordered by start, without those that the suite ignores."""
    if not tools.ignore:
        return trace.tool_calls
    return tuple(call for call in trace.tool_calls if call.name not in tools.ignore)


def tool_walks(trace: Trace, tools: ToolSettings) -> list[tuple[str, ...]]:
    """Return the call sequences that make the tool graph: one for the run, or one for each agent."""
    walks: dict[str | None, list[str]] = {}
    for call in counted_calls(trace, tools):
        walks.setdefault(call.agent if tools.by == "agent" else None, []).append(call.name)
    return [tuple(walk) for walk in walks.values()]


@once
def logical_calls(trace: Trace, tools: ToolSettings) -> int:
    """Return the number of calls, where a call and its retries count as one.

    A retry follows a failed call of the same tool by the same agent.
    """
    calls = counted_calls(trace, tools)
    retries = 0
    latest: dict[str | None, Span] = {}
    for call in calls:
        before = latest.get(call.agent)
        if before is not None and before.ok is False and before.name == call.name:
            retries += 1
        latest[call.agent] = call
    return len(calls) - retries


def lcs_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    Bit-parallel over the shorter sequence (Hyyrö, "Bit-parallel LCS-length computation revisited",
    2004): two sequences of 50,000 calls take a fraction of a second.
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
