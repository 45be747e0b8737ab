"""Tools that answer what was recorded, late or wrongly at a stated rate.

Definition: docs/definitions/worlds.md#mocked-tools.
"""

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import update_wrapper
from pathlib import Path
from random import Random
from typing import Any, Literal, cast

import msgspec

from trivium.agents.worlds.state import same, shown_value
from trivium.agents.worlds.world import Tool, named_tools
from trivium.any_object import encode
from trivium.errors import InputError, Problem, TraceError
from trivium.records.validation import convert
from trivium.suites.world_settings import MockSettings
from trivium.traces.readers.collection import read_trace_file
from trivium.traces.trace import Trace
from trivium.values import JsonObject, json_text, resolved, text_or_json

Match = Literal["strict", "nearest"]

LONGEST_COMPARED = 2_000
"""Characters of arguments that are compared to find the nearest recorded call."""


class ToolError(RuntimeError):
    """A mocked tool failed, as it was recorded or as a simulated fault."""

    retryable = False


class ToolTimeout(TimeoutError):
    """A simulated time-out of a tool."""

    retryable = False


class NotRecorded(LookupError):
    """A mocked tool was asked for a result that was not recorded."""

    retryable = False


@resolved
class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool and its result.

    Attributes:
        name: The tool.
        arguments: Its arguments.
        result: What it returned.
        error: Why it failed, or None.
    """

    name: str
    arguments: Any = None
    result: Any = None
    error: str | None = None


Calls = str | Path | Trace | Mapping[str, Any] | RecordedCall
"""A file of traces, a trace, or a call: a mapping with ``name``, ``arguments``, ``result`` or ``error``."""


class Mocks:
    """Mocked tools of any number of attempts.

    Args:
        settings: How they answer, how late, and how often they fail.
        calls: The recorded calls; in a file or a trace, those of its tools.
        functions: Functions that answer instead, by the names of their tools.

    Raises:
        InputError: If a file cannot be read or holds no call of a tool, or a call is malformed.
    """

    def __init__(
        self, settings: MockSettings, calls: Iterable[Calls], functions: Iterable[Tool] | Mapping[str, Tool]
    ) -> None:
        self._settings = settings
        self._functions = named_tools(functions)
        self._recorded: dict[str, list[RecordedCall]] = {}
        for each in calls:
            for call in _calls_of(each):
                self._recorded.setdefault(call.name, []).append(call)

    def tools(self, real: Mapping[str, Tool], *, seed: int, counts: Counter[str]) -> dict[str, Tool]:
        """Return the tools of one attempt.

        Args:
            real: Tools of the world, which answer if no mock does.
            seed: Seed of the faults.
            counts: Counts what was mocked: ``recorded``, ``not recorded``, ``timeout``, ``error``, ``shape``.
        """
        settings = self._settings
        answering = {
            name: _Replay(name, calls, settings.match, counts).tool()
            for name, calls in self._recorded.items()
        }
        held: dict[str, Tool] = {**real, **answering, **self._functions}
        if not settings.latency and not settings.faults.any:
            return held
        return {name: _Faulty(name, settings, seed, counts).around(tool) for name, tool in held.items()}


def mock_tools(
    *calls: Calls,
    match: Match = "strict",
    functions: Iterable[Tool] | Mapping[str, Tool] = (),
    latency: float = 0.0,
    faults: Mapping[str, float] | None = None,
    seed: int = 0,
) -> dict[str, Tool]:
    """Make tools that answer what was recorded, for ``tv.World(state, tools=…)`` or an agent of your own.

    A call that was not recorded raises a LookupError that names the nearest one. Of several calls with equal
    arguments the results follow one another, and the last one is repeated. A recorded failure is raised.

    Args:
        *calls: Files of traces, traces, or mappings with ``name``, ``arguments`` and ``result`` or ``error``.
        match: ``strict`` if the arguments must be equal, ``nearest`` for those that have most in common.
        functions: Functions that answer instead: a list, or a mapping with the names of the tools.
        latency: How long each call takes at least, in seconds.
        faults: Shares of the calls, in [0, 1], that end in a ``timeout`` or an ``error``, or whose result has
            a wrong ``shape``.
        seed: Seed of the faults; the same seed gives the same faults to the same calls.

    Returns:
        The tools by name.

    Raises:
        InputError: If a file cannot be read or holds no call of a tool, or an argument is wrong.

    Examples:
        >>> tools = mock_tools({"name": "price", "arguments": {"of": "tea"}, "result": 3})
        >>> tools["price"](of="tea")
        3
    """
    given = {"match": match, "latency": latency, "faults": dict(faults or {})}
    settings, problems = convert(msgspec.json.decode(encode(given)), MockSettings)
    if settings is None:
        raise InputError("mock_tools", problems)
    if wrong := settings.faults.problem:
        raise InputError("mock_tools", Problem("faults", wrong))
    return Mocks(settings, calls, functions).tools({}, seed=seed, counts=Counter())


def _calls_of(given: Calls) -> Iterator[RecordedCall]:
    if isinstance(given, RecordedCall):
        yield given
    elif isinstance(given, Trace):
        yield from _of_trace(given)
    elif isinstance(given, Mapping):
        try:
            yield msgspec.convert(dict(given), RecordedCall)
        except msgspec.ValidationError as error:
            raise InputError("calls", f"a recorded call is malformed: {error}") from error
    else:
        found = [call for trace in read_trace_file(Path(given)) for call in _of_trace(trace)]
        if not found:
            raise TraceError(str(given), Problem("", "holds no call of a tool that could be answered"))
        yield from found


def _of_trace(trace: Trace) -> Iterator[RecordedCall]:
    for span in trace.tool_calls:
        failed = span.ok is False
        why = text_or_json(span.output) or "it failed" if failed else None
        yield RecordedCall(name=span.name, arguments=span.input, result=span.output, error=why)


class _Replay:
    """Answers the calls of one tool in one attempt from the recorded ones."""

    def __init__(self, name: str, calls: list[RecordedCall], match: Match, counts: Counter[str]) -> None:
        self._name, self._calls, self._match, self._counts = name, calls, match, counts
        self._used: set[int] = set()

    def tool(self) -> Tool:
        def replay(**arguments: Any) -> Any:
            return self._answer(msgspec.json.decode(encode(arguments)))

        replay.__name__ = self._name
        replay.__doc__ = f"{self._name}, answered from what was recorded."
        return replay

    def _answer(self, arguments: JsonObject) -> Any:
        equal = [place for place, call in enumerate(self._calls) if same(call.arguments or {}, arguments)]
        if not equal and self._match == "nearest":
            equal = [self._nearest(arguments)]
        if not equal:
            self._counts["not recorded"] += 1
            nearest = shown_value(self._calls[self._nearest(arguments)].arguments)
            raise NotRecorded(
                f"no call of {self._name} with {shown_value(arguments)} was recorded; the nearest one has "
                f"{nearest} (match: nearest takes it)"
            )
        self._counts["recorded"] += 1
        place = next((each for each in equal if each not in self._used), equal[-1])
        self._used.add(place)
        call = self._calls[place]
        if call.error is not None:
            raise ToolError(call.error)
        return msgspec.json.decode(encode(call.result))

    def _nearest(self, arguments: JsonObject) -> int:
        """The recorded call with most equal arguments, then the most similar text, then the first."""
        wanted = json_text(arguments, canonical=True)[:LONGEST_COMPARED]

        def likeness(place: int) -> tuple[int, float, int]:
            held = self._calls[place].arguments
            equal = sum(
                key in held and same(held[key], value) for key, value in arguments.items()
            ) if isinstance(held, Mapping) else 0  # fmt: skip
            text = json_text(held, canonical=True)[:LONGEST_COMPARED]
            return equal, SequenceMatcher(None, wanted, text, autojunk=False).ratio(), -place

        return max(range(len(self._calls)), key=likeness)


class _Faulty:
    """Makes the calls of one tool in one attempt late, and some of them fail."""

    def __init__(self, name: str, settings: MockSettings, seed: int, counts: Counter[str]) -> None:
        self._name, self._latency, self._faults = name, settings.latency, settings.faults
        self._seed, self._counts, self._made = seed, counts, 0

    def around(self, tool: Tool) -> Tool:
        def late(*args: Any, **kwargs: Any) -> Any:
            fault, rng = self._drawn()
            time.sleep(self._latency)
            self._raise(fault)
            return self._shaped(tool(*args, **kwargs), fault, rng)

        async def late_async(*args: Any, **kwargs: Any) -> Any:
            fault, rng = self._drawn()
            await asyncio.sleep(self._latency)
            self._raise(fault)
            return self._shaped(await tool(*args, **kwargs), fault, rng)

        made: Any = late_async if inspect.iscoroutinefunction(tool) else late
        update_wrapper(made, tool)
        return cast("Tool", made)

    def _drawn(self) -> tuple[str | None, Random]:
        """The fault of the next call, which depends on the seed, the tool and the number of the call only."""
        rng = Random(f"{self._seed}\0{self._name}\0{self._made}")  # noqa: S311 - no secret
        self._made += 1
        drawn = rng.random()
        for fault, share in msgspec.structs.asdict(self._faults).items():
            if drawn < share:
                self._counts[fault] += 1
                from trivium.traces.recording import current

                current().note(fault=fault)
                return fault, rng
            drawn -= share
        return None, rng

    def _raise(self, fault: str | None) -> None:
        if fault == "timeout":
            raise ToolTimeout(f"{self._name} did not answer in time (a simulated fault)")
        if fault == "error":
            raise ToolError(f"{self._name} failed: 503 Service Unavailable (a simulated fault)")

    def _shaped(self, result: Any, fault: str | None, rng: Random) -> Any:
        return _wrong_shape(result, rng) if fault == "shape" else result


def _wrong_shape(result: Any, rng: Random) -> Any:
    """The result in another shape than agreed: nothing, wrapped, as a text, or without a part of it."""
    shapes: list[Callable[[], Any]] = [lambda: None, lambda: [result], lambda: {"result": result}]
    if not isinstance(result, str):
        shapes.append(lambda: encode(result).decode())
    if isinstance(result, Mapping) and result:
        shapes.append(lambda: dict(list(result.items())[: len(result) // 2]))
    made = rng.choice(shapes)()
    return [result] if made is None and result is None else made
