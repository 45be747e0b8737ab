"""Makes a world for each attempt, looks at its end, and cleans up: also what a killed process left.

Definition: docs/definitions/worlds.md#state.
"""

import asyncio
import inspect
import logging
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any, TypeVar

import msgspec

from trivium.agents.adapters.function import DaemonThreads, names_taken
from trivium.agents.attempt import AgentFailure, Request, WorldFailure, WorldRecord
from trivium.agents.failures import reason
from trivium.agents.invoke import attempt_seed
from trivium.agents.loading import load_object
from trivium.agents.worlds.mocks import Mocks
from trivium.agents.worlds.sharing import Claim, SharedStates
from trivium.agents.worlds.watch import Watch
from trivium.agents.worlds.world import Tool, World, named_tools, with_state
from trivium.errors import AgentError
from trivium.processes import has_certainly_ended, is_own, this_process
from trivium.suites.case import Case, ExpectedTool
from trivium.suites.world_settings import KINDS, MockSettings, WorldSettings
from trivium.values import json_text

log = logging.getLogger(__name__)

GIVEN = ("case", "repeat", "seed", "folder")
"""What a factory gets if its signature names it; ``folder`` is an empty one, which is removed afterwards."""

_PREFIX = "trivium-worlds-"
_STATE_FILE = "state.json"

T = TypeVar("T")


class OpenWorld(msgspec.Struct, frozen=True):
    """A world of one attempt while it is in use.

    Attributes:
        world: What the agent gets.
        watch: Looks at the state, and knows the calls of its tools.
        folder: The temporary folder of the attempt, if it has one.
        close: Closes what the factory opened.
        mocked: Counts of calls that were mocked.
        claim: Its state; None of a built-in one, which is a copy.
    """

    world: World
    watch: Watch
    folder: Path | None
    close: Callable[[], None]
    mocked: Counter[str]
    claim: Claim | None


class Worlds:
    """Makes and closes the worlds of a run.

    Args:
        settings: The suite's world.
        factory: The function that makes a state; None takes that of the settings.
        in_files: Whether the agent is a program, for which a JSON state has to be in a file.

    Raises:
        AgentError: If the factory or the tools cannot be loaded.
    """

    def __init__(
        self,
        settings: WorldSettings,
        factory: Callable[..., Any] | None = None,
        *,
        in_files: bool = False,
    ) -> None:
        self.name = settings.shown
        self._settings, self._seconds = settings, settings.seconds
        self._factory = factory
        if factory is None and settings.factory is not None:
            self._factory = load_object(settings.factory, what="factory")
        self._given = () if self._factory is None else _accepted(self._factory, self.name)
        self._tools = None if settings.tools is None else _loaded_tools(settings.tools)
        self._json = None if settings.json is None else _json_bytes(settings.json)
        self._mocks = None if settings.mocks is None else _mocks(settings.mocks)
        if settings.mocks is not None and not any(getattr(settings, kind) is not None for kind in KINDS):
            self._json = b"{}"
        in_a_file = in_files if self._json is not None else self._factory is None
        self._in_folder = in_a_file or "folder" in self._given
        self._threads = DaemonThreads(f"world {self.name}")
        self._shared = SharedStates()
        self._root: Path | None = None
        self._lock = Lock()
        self._finished = False
        remove_lost_worlds()

    async def make(self, request: Request) -> OpenWorld:
        """Make the world of an attempt.

        Raises:
            WorldFailure: If the factory raises, hangs, or returns what another attempt has.
        """
        late = Event()
        self._finished = False  # it may be used again after it was closed

        def work() -> OpenWorld:
            opened = self._make(request)
            if late.is_set():  # nobody waits for it any more
                self._closed(opened)
            return opened

        try:
            return await self._within(work, "was not made")
        except BaseException:
            late.set()
            raise

    async def end(self, opened: OpenWorld, case: Case) -> WorldRecord:
        """Compare the end of a world with its start and with what its case expects.

        Raises:
            WorldFailure: If the state cannot be looked at in time, or another attempt got it, too.
        """
        record = await self._within(lambda: opened.watch.ended(case), "could not be looked at")
        if opened.claim is not None and opened.claim.spoiled is not None:
            raise WorldFailure(f"the world {self.name} is shared: {opened.claim.spoiled}")
        return msgspec.structs.replace(record, mocked=dict(opened.mocked))

    async def look(self, look: Callable[[], T]) -> T:
        """Look at a world between the turns of a conversation.

        Raises:
            WorldFailure: If it cannot be looked at in time.
        """
        return await self._within(look, "could not be looked at")

    async def close(self, opened: OpenWorld) -> None:
        """Close a world and remove its files.

        Raises:
            WorldFailure: If its own code raises or hangs; its files are removed nevertheless.
        """
        await self._within(lambda: self._closed(opened), "was not closed")

    def finish(self) -> None:
        """End threads, and remove all files of the worlds."""
        self._threads.close()
        with self._lock:
            self._finished = True
            root, self._root = self._root, None
        _remove(root)

    async def _within(self, work: Callable[[], T], what: str) -> T:
        """Do work of the world's own code in a thread, within the time limit."""
        try:
            done: T = await asyncio.wait_for(self._threads.run(work), self._seconds)
        except TimeoutError as error:
            limit = f"{self._seconds:g} s (world.seconds)"
            raise WorldFailure(f"the world {self.name} {what} within {limit}") from error
        except Exception as error:
            raise WorldFailure(f"the world {self.name} {what}: {reason(error)}") from error
        return done

    def _make(self, request: Request, *, expected: bool = False) -> OpenWorld:
        """Make a world: that of an attempt, or the one in which the expected calls are made."""
        name = f'case "{request.case.id}", repeat {request.repeat}{" (expected calls)" if expected else ""}'
        folder = self._new_folder() if self._in_folder else None
        close: Callable[[], None] = _nothing
        claim = None
        try:
            made, path, close = self._state(request, folder)
            world = made if isinstance(made, World) else World(made, self._tools_of(made), path=path)
            if self._factory is not None:
                claim = self._shared.claim(name, world.state, request.case)
            mocked: Counter[str] = Counter()
            if self._mocks is not None and not expected:
                tools = self._mocks.tools(world.tools, seed=self._fault_seed(request), counts=mocked)
                world = World(world.state, tools, path=world.path)
            watch = self._watch(request, world, expected=expected)
        except BaseException as error:
            with suppress(Exception):
                close()
            _remove(folder)
            if isinstance(error, Exception):
                raise
            raise AgentFailure(f"it raised {type(error).__name__}: {error}") from error
        # Outside of an attempt, spans would go to a file.
        given = world if expected else world.recorded(watch.called)
        return OpenWorld(given, watch, folder, close, mocked, claim)

    def _watch(self, request: Request, world: World, *, expected: bool) -> Watch:
        database = world.state if isinstance(world.state, sqlite3.Connection) else None
        watch = Watch(
            self.name,
            world,
            database=database if self._settings.sqlite is None else world.path,
            in_file=world.path if self._json is not None and not expected else None,
            replay=partial(self._after, request) if world.tools else None,
        )
        if not expected:
            watch.begin(request.case)
        return watch

    def _fault_seed(self, request: Request) -> int:
        own = None if self._settings.mocks is None else self._settings.mocks.seed
        return request.seed if own is None else attempt_seed(own, request.case.id, request.repeat)

    def _new_folder(self) -> Path:
        with self._lock:
            if self._finished:  # a factory that hung until after the run
                raise AgentFailure("the run is over")
            if self._root is None:
                owner = this_process().replace(":", "~")
                self._root = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{owner}-"))
            return Path(tempfile.mkdtemp(dir=self._root))

    def _state(self, request: Request, folder: Path | None) -> tuple[Any, Path | None, Callable[[], None]]:
        """A new state, where a built-in one is below its temporary folder, and what closes it."""
        if self._factory is not None:
            given = {"case": request.case, "repeat": request.repeat, "seed": request.seed, "folder": folder}
            made, close = _called(self._factory, {name: given[name] for name in self._given})
            return made, None, close
        if self._json is not None:
            path = None if folder is None else folder / _STATE_FILE
            if path is not None:
                path.write_bytes(self._json)
            return msgspec.json.decode(self._json), path, _nothing
        source = Path(self._settings.sqlite or self._settings.folder or "")
        if folder is None:
            raise AgentFailure("it names no state")
        path = folder / (source.name or "folder")
        if self._settings.sqlite is not None:
            connection = _copied_database(source, path)
            return connection, path, connection.close
        shutil.copytree(source, path, symlinks=True)
        return path, path, _nothing

    def _tools_of(self, state: Any) -> Mapping[str, Tool] | None:
        if self._tools is None:
            return None
        return {name: with_state(tool, state) for name, tool in self._tools.items()}

    def _after(self, request: Request, calls: Sequence[ExpectedTool]) -> Any:
        """The copy of the state that calls leave in a new world."""
        opened = self._make(request, expected=True)
        try:
            for call in calls:
                made = opened.world.call(call.name, **(call.arguments or {}))
                if inspect.iscoroutine(made):
                    asyncio.run(made)
            copied, problem, _ = opened.watch.copied(None)
        finally:
            self._closed(opened)
        if problem is not None:
            raise AgentFailure(problem)
        return copied

    def _closed(self, opened: OpenWorld) -> None:
        if opened.claim is not None:
            self._shared.release(opened.claim)
        try:
            opened.close()
        finally:
            _remove(opened.folder)


def _nothing() -> None:
    """Do nothing."""


def _accepted(factory: Callable[..., Any], name: str) -> tuple[str, ...]:
    """The keyword arguments that a factory takes."""
    if not callable(factory):
        raise AgentError(name, f"is {type(factory).__name__}, expected a function that makes a state")
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return ()
    return names_taken(parameters, GIVEN, name=name, what="factory")


def _loaded_tools(spec: str) -> dict[str, Tool]:
    found = load_object(spec, what="tools")
    if not isinstance(found, Mapping | list | tuple):
        what = f"is {type(found).__name__}, expected a list of functions, or a mapping with their names"
        raise AgentError(spec, what)
    try:
        tools = named_tools(found)
        for name, tool in tools.items():
            if not inspect.signature(tool).parameters:
                raise ValueError(f"the tool {name} takes no argument; the first one is the state")
    except (TypeError, ValueError) as error:
        raise AgentError(spec, str(error)) from error
    return tools


def _mocks(settings: MockSettings) -> Mocks:
    functions = () if settings.functions is None else load_object(settings.functions, what="functions")
    try:
        return Mocks(settings, settings.calls, functions)
    except (TypeError, ValueError) as error:
        raise AgentError(settings.functions or "world.mocks", str(error)) from error


def _json_bytes(given: Any) -> bytes:
    return Path(given).read_bytes() if isinstance(given, str) else json_text(given).encode()


def _called(factory: Callable[..., Any], given: Mapping[str, Any]) -> tuple[Any, Callable[[], None]]:
    """Call a factory; what it returns, and what closes that."""
    made = factory(**given)
    if inspect.iscoroutine(made):
        made = asyncio.run(made)
    if inspect.isgenerator(made):
        return next(made), lambda: _exhausted(made)
    if inspect.isasyncgen(made) or type(made).__name__ == "_GeneratorContextManager":
        raise AgentFailure("the factory yields in a way that is not read: expected a function with one yield")
    if made is None:
        raise AgentFailure("the factory returned nothing; expected a state")
    close = getattr(made, "close", None) or getattr(getattr(made, "state", None), "close", None)
    return made, close if callable(close) else _nothing


def _exhausted(generator: Iterator[Any]) -> None:
    for _ in generator:
        raise AgentFailure("the factory yields more than once")


def _copied_database(source: Path, target: Path) -> sqlite3.Connection:
    with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as original:
        connection = sqlite3.connect(target, check_same_thread=False, isolation_level=None)
        original.backup(connection)
    return connection


def lost_worlds() -> Iterator[Path]:
    """The folders of worlds whose process has ended without removing them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).rpartition("-")[0].replace("~", ":")
        with suppress(OSError, ValueError):
            own = not folder.is_symlink() and is_own(folder)
            if own and has_certainly_ended(owner):
                yield folder


def remove_lost_worlds() -> int:
    """Remove the folders of worlds that ended processes left; return how many there were."""
    found = list(lost_worlds())
    for folder in found:
        _remove(folder)
    if found:
        log.info("removed %d folders of worlds that an ended process left", len(found))
    return len(found)


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():  # an agent may have taken away the right to write
            for held in (folder, *folder.rglob("*")):
                with suppress(OSError):
                    if held.is_dir() and not held.is_symlink():
                        held.chmod(0o700)
            shutil.rmtree(folder, ignore_errors=True)
