"""What an agent gets of its world: the state of its attempt, and the tools that work on it."""

import asyncio
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial, update_wrapper
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from trivium.any_object import plain_text
from trivium.values import JsonObject

Tool = Callable[..., Any]

Within = Callable[[str, JsonObject], AbstractContextManager[None]]
"""Makes what surrounds a call of a tool, from its name and arguments."""

_OWN = frozenset({"call", "call_async", "close", "recorded", "path", "snapshot", "state", "tools"})


class World:
    """The state of one attempt and its tools. A factory may return one; agents get one as ``world``.

    The tools are also attributes: ``world.refund("1001")`` calls the tool ``refund``. Each call is a span of
    the attempt's trace.

    Args:
        state: The state: any object, a SQLite connection, or the path of a folder.
        tools: Functions, or a mapping with their names; by default the public methods of the state, if its
            class is not one of Python's own.
        path: Where the state is, for agents that are programs.

    Attributes:
        state: The state.
        tools: The tools by name, in the order in which they are listed.
        path: Where the state is: a file or a folder; None if it is only in memory.

    Raises:
        ValueError: If a tool has no name, or the name of another one or of an attribute.
    """

    def __init__(
        self,
        state: Any,
        tools: Iterable[Tool] | Mapping[str, Tool] | None = None,
        *,
        path: Path | None = None,
    ) -> None:
        self.state = state
        self.path = path if path is not None or not isinstance(state, Path) else state
        named = _methods(state) if tools is None else named_tools(tools)
        self.tools: Mapping[str, Tool] = MappingProxyType(named)

    def call(self, name: str, /, *arguments: Any, **named: Any) -> Any:
        """Call a tool by its name.

        Raises:
            LookupError: If there is no such tool; the message lists those that there are.
        """
        if name not in self.tools:
            known = ", ".join(self.tools) or "none"
            raise LookupError(f'the world has no tool "{plain_text(name)[:100]}" (there are: {known})')
        return self.tools[name](*arguments, **named)

    async def call_async(self, name: str, /, *arguments: Any, **named: Any) -> Any:
        """Call a tool by its name from a coroutine; one that is no coroutine itself runs in a thread.

        Raises:
            LookupError: If there is no such tool; the message lists those that there are.
        """
        if inspect.iscoroutinefunction(self.tools.get(name)):
            return await self.call(name, *arguments, **named)
        return await asyncio.to_thread(self.call, name, *arguments, **named)

    def __getattr__(self, name: str) -> Tool:
        """Return a tool."""
        if name.startswith("_") or name not in self.__dict__.get("tools", ()):
            known = ", ".join(self.__dict__.get("tools", ())) or "none"
            raise AttributeError(f'the world has no tool "{name}" (there are: {known})')
        return self.tools[name]

    def recorded(self, within: Within) -> "World":
        """The same world, whose tools record their calls in the attempt's trace.

        Args:
            within: Surrounds each call.
        """
        from trivium.traces.recording import tool

        made = World(self.state, (), path=self.path)
        made.tools = MappingProxyType(
            {name: _within(name, each, tool(name=name)(each), within) for name, each in self.tools.items()}
        )
        return made


def named_tools(tools: Iterable[Tool] | Mapping[str, Tool]) -> dict[str, Tool]:
    """Return tools by their names.

    Raises:
        TypeError: If one cannot be called.
        ValueError: If one has no name, or that of another one or of an attribute.
    """
    pairs = list(tools.items()) if isinstance(tools, Mapping) else [(_name_of(each), each) for each in tools]
    found: dict[str, Tool] = {}
    for name, each in pairs:
        if not callable(each):
            raise TypeError(f"the tool {name!r:.100} is {type(each).__name__}, which cannot be called")
        if not isinstance(name, str) or not name or name.startswith("_") or name in _OWN:
            raise ValueError(f"{name!r:.100} is no name of a tool: give it one in a mapping of names")
        if name in found:
            raise ValueError(f'two tools are called "{name}"')
        found[name] = each
    return found


def with_state(tool: Tool, state: Any) -> Tool:
    """A tool whose first argument is the state."""
    made = partial(tool, state)
    update_wrapper(made, tool)
    parameters = list(inspect.signature(tool).parameters.values())[1:]
    made.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return made


def _name_of(tool: Any) -> Any:
    return getattr(getattr(tool, "func", tool), "__name__", None)


def _methods(state: Any) -> dict[str, Tool]:
    """The public methods of a user's object, in the order in which its classes define them."""
    own = getattr(state, "tools", None) if type(state).__module__ not in {"builtins", "sqlite3"} else None
    if isinstance(own, Mapping | list | tuple):
        return named_tools(own)
    kinds = [kind for kind in reversed(type(state).__mro__) if not _is_pythons(kind)]
    names = dict.fromkeys(
        name
        for kind in kinds
        for name, held in vars(kind).items()
        if inspect.isfunction(held) and not name.startswith("_") and name not in _OWN
    )
    return {name: getattr(state, name) for name in names}


def _is_pythons(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in {*sys.stdlib_module_names, "msgspec", "pydantic"}


def _within(name: str, tool: Tool, recorded: Tool, within: Within) -> Tool:
    """A tool whose calls are recorded and surrounded by something; it looks like the tool itself."""
    from trivium.traces.recording.decorators import arguments_by_name

    arguments_of = arguments_by_name(tool)

    def called(*args: Any, **kwargs: Any) -> Any:
        with within(name, arguments_of(args, kwargs)):
            return recorded(*args, **kwargs)

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        with within(name, arguments_of(args, kwargs)):
            return await recorded(*args, **kwargs)

    made: Any = awaited if inspect.iscoroutinefunction(tool) else called
    update_wrapper(made, tool)
    return cast("Tool", made)
