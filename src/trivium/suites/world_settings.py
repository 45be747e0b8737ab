"""The setting ``world``: what an agent may change, and where its state begins."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from trivium.errors import InputError, Problem
from trivium.records.documents import parse_json, read_document
from trivium.records.validation import describe
from trivium.storage import named_path
from trivium.suites.case import Seconds, Share, Texts, Weight
from trivium.values import FileRecord, JsonObject, json_text

KINDS = ("factory", "json", "sqlite", "folder")
"""The keys of a world of which exactly one is given."""

_NAMED = re.compile(r"(.+\.py|[^\W\d]\w*(\.[^\W\d]\w*)*):[^\W\d]\w*(\.[^\W\d]\w*)*")


class FaultRates(FileRecord, frozen=True, kw_only=True):
    """Shares of the calls of tools that fail, each in [0, 1].

    Attributes:
        timeout: Those that end in a time-out.
        error: Those that end in an error.
        shape: Those whose result has a wrong shape.
    """

    timeout: Share = 0.0
    error: Share = 0.0
    shape: Share = 0.0

    @property
    def any(self) -> bool:
        """Whether any call fails."""
        return self.timeout + self.error + self.shape > 0

    @property
    def problem(self) -> str | None:
        """What is wrong with the rates together."""
        whole = self.timeout + self.error + self.shape
        return f"the shares sum to {whole:g}, expected at most 1" if whole > 1 else None


class MockSettings(FileRecord, frozen=True, kw_only=True):
    """Tools of a world that are mocked.

    Attributes:
        calls: Files of traces, whose tools answer as they did there.
        match: Whether the arguments must be those of a recorded call, or the nearest recorded ones are taken.
        functions: ``package.module:name`` of functions that answer instead: a list, or a mapping with the
            names of the tools.
        latency: How long each call of any tool takes at least, in seconds.
        faults: Shares of the calls of any tool that fail.
        seed: Seed of the faults; by default that of the run.
    """

    calls: Texts = ()
    match: Literal["strict", "nearest"] = "strict"
    functions: str | None = None
    latency: Weight = 0.0
    faults: FaultRates = FaultRates()
    seed: Annotated[int, Meta(ge=0)] | None = None


class WorldSettings(FileRecord, frozen=True, kw_only=True):
    """A world: the state that an attempt begins with, and the tools that work on it.

    Attributes:
        factory: ``package.module:name``, a function that makes the state of one attempt.
        json: The state itself, or a JSON file that holds it.
        sqlite: A SQLite database, which is copied for each attempt.
        folder: A folder, which is copied for each attempt.
        tools: ``package.module:name`` of functions that get the state as their first argument: a list, or a
            mapping with the names of the tools.
        mocks: Tools that answer what was recorded, late or wrongly; alone, the state is empty.
        seconds: Time limit for making a world, and for looking at it and closing it, in seconds.
    """

    factory: str | None = None
    json: Any = None
    sqlite: str | None = None
    folder: str | None = None
    tools: str | None = None
    mocks: MockSettings | None = None
    seconds: Seconds = 60

    @property
    def shown(self) -> str:
        """Its name in messages."""
        held = self.factory or self.sqlite or self.folder or self.json or ("mocks" if self.mocks else None)
        return held if isinstance(held, str) else "in the suite"


def world_of(setting: str | WorldSettings) -> WorldSettings:
    """The settings of a world; a text alone names its factory."""
    return WorldSettings(factory=setting) if isinstance(setting, str) else setting


def start_digest(setting: str | WorldSettings) -> str | None:
    """The digest of what a world's state begins with; None of a factory, whose code is not looked at."""
    world = world_of(setting)
    held = world.json if isinstance(world.json, str) else world.sqlite
    if held is None and world.folder is None:
        return (
            None if world.json is None else blake2b(json_text(world.json).encode(), digest_size=8).hexdigest()
        )
    root = Path(held or world.folder or "")
    digest = blake2b(digest_size=8)
    for path in [root] if held is not None else sorted(root.rglob("*")):
        digest.update(path.relative_to(root).as_posix().encode(errors="surrogateescape"))
        if path.is_file():
            with path.open("rb") as file:
                digest.update(file_digest(file, "blake2b").digest())
    return digest.hexdigest()


def with_folder(raw: Any, folder: Path) -> Any:
    """Put the folder of a suite before the relative paths of its world."""
    if not isinstance(raw, Mapping):
        return raw
    made: JsonObject = dict(raw)
    for key in ("json", "sqlite", "folder"):
        if isinstance(path := made.get(key), str) and path and folder != Path():
            with suppress(InputError):  # an address, which is refused as a file that does not exist
                made[key] = str(named_path(folder, path))
    mocks = made.get("mocks")
    if isinstance(mocks, Mapping) and folder != Path():
        calls = mocks.get("calls", ())
        paths = [calls] if isinstance(calls, str) else calls
        if isinstance(paths, list | tuple):
            joined = [str(folder / each) if isinstance(each, str) else each for each in paths]
            made["mocks"] = {**mocks, "calls": joined}
    return made


def world_problems(setting: str | WorldSettings) -> Iterator[Problem]:
    """List the mistakes in a world whose types are correct."""
    world = world_of(setting)
    given = [key for key in KINDS if getattr(world, key) is not None]
    if len(given) != 1 and not (world.mocks is not None and not given):
        found = f"names {' and '.join(given)}" if given else "names no state"
        yield Problem("world", f"{found}; expected one of {', '.join(KINDS)}")
    mocks = world.mocks or MockSettings()
    named = (("factory", world.factory), ("tools", world.tools), ("mocks.functions", mocks.functions))
    for where, name in named:
        if name is not None and not _NAMED.fullmatch(name):
            place = "world" if isinstance(setting, str) else f"world.{where}"
            expected = "package.module:name or file.py:name"
            yield Problem(place, f"found {describe(name)}, expected {expected}")
    if wrong := mocks.faults.problem:
        yield Problem("world.mocks.faults", wrong)
    for path in mocks.calls:
        if not Path(path).exists():
            yield Problem("world.mocks.calls", f'there is no file "{path}"')
    yield from _missing_files(world)


def _missing_files(world: WorldSettings) -> Iterator[Problem]:
    for key, kind in (("sqlite", "file"), ("folder", "folder")):
        path = getattr(world, key)
        if path is not None and not (Path(path).is_dir() if kind == "folder" else Path(path).is_file()):
            yield Problem(f"world.{key}", f'there is no {kind} "{path}"')
    if isinstance(world.json, str):
        try:
            read_document(Path(world.json), parse=parse_json)
        except InputError as error:
            for problem in error.problems:
                at = f" ({problem.where})" if problem.where else ""
                yield Problem("world.json", f"{world.json}{at}: {problem.what}")
    elif world.json is not None and not isinstance(world.json, dict | list):
        yield Problem("world.json", f"found {describe(world.json)}, expected a mapping, a list or a file")
