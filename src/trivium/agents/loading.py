"""Loads agents from ``pkg.mod:name``, ``file.py:name``, a URL or ``cmd:COMMAND``."""

import importlib
import importlib.util
import pkgutil
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from trivium.agents.adapters.command import CommandAgent
from trivium.agents.adapters.function import FunctionAgent
from trivium.agents.attempt import AgentAdapter
from trivium.agents.failures import reason
from trivium.errors import AgentError, suggest
from trivium.suites.agent_settings import AgentSettings

PYTHON_FORMS = '"package.module:name" or "file.py:name"'
FORMS = '"package.module:name", "file.py:name", "http://…", "https://…" or "cmd:program arguments"'

METHODS = ("ainvoke", "invoke", "kickoff", "arun", "run")
"""Methods by which frameworks run an agent that is not callable; the first that it has gets the input."""

_URL = re.compile(r"https?://", re.IGNORECASE)
_COMMAND = "cmd:"


def load_agent(spec: Any) -> AgentAdapter:
    """Load the agent that a user named or passed.

    Args:
        spec: ``package.module:name`` or ``file.py:name`` (the name may have dots), ``http(s)://…``,
            ``cmd:program arguments``, a list of a program and its arguments, a callable, a PydanticAI agent,
            an object with one of ``METHODS``, any object with the methods of an AgentAdapter, or the settings
            of an agent behind an address.

    Raises:
        AgentError: If the agent cannot be found or called.
        MissingExtra: If the agent needs an extra that is not installed.
    """
    if isinstance(spec, str) and _URL.match(spec):
        spec = AgentSettings(url=spec)
    if isinstance(spec, AgentSettings):
        from trivium.agents.adapters.http import EndpointAgent

        agent = EndpointAgent(spec)
        _check_address(agent.url, agent.name)
        return agent
    if not isinstance(spec, str):
        return _from_object(spec, _name_of(spec))
    if spec.startswith(_COMMAND):
        return CommandAgent(spec.removeprefix(_COMMAND).strip(), name=None)
    return _from_object(load_object(spec, what="agent", forms=FORMS), spec)


def load_object(spec: str, *, what: str = "object", forms: str = PYTHON_FORMS) -> Any:
    """Import what a Python path names; the working folder is looked in too.

    Args:
        spec: ``package.module:name`` or ``file.py:name``; the name may have dots.
        what: What it should be, for the message.
        forms: What the message says is expected.

    Raises:
        AgentError: If it names nothing, or its module cannot be imported.
    """
    place, separator, attribute = spec.rpartition(":")
    if not (separator and place and attribute):
        raise AgentError(spec, f"names no {what}; expected {forms}")
    return _attribute(_module(place, spec, forms), attribute, spec)


def _check_address(url: str, name: str) -> None:
    import httpx

    try:
        host = httpx.URL(url).host
    except (httpx.InvalidURL, UnicodeEncodeError) as error:
        raise AgentError(name, f"is no address: {error}") from error
    if not host:
        raise AgentError(name, "names no host; expected http://host/path or https://host/path")


def _from_object(found: Any, name: str) -> AgentAdapter:
    if _is_pydantic_agent(found):
        from trivium.agents.adapters.pydantic_ai import PydanticAgent

        return PydanticAgent(found, name=name.rpartition(":")[2])
    if hasattr(found, "call") and hasattr(found, "close") and not isinstance(found, type):
        adapter: AgentAdapter = found
        return adapter
    if isinstance(found, Sequence) and not isinstance(found, str | bytes):
        if found and all(isinstance(word, str) for word in found):
            return CommandAgent(found)
        raise AgentError(name, "a command is a list of texts: a program and its arguments")
    if not callable(found):
        method = next((name for name in METHODS if callable(getattr(found, name, None))), None)
        if method is not None:
            return FunctionAgent(getattr(found, method), name=name)
        raise AgentError(
            name,
            f"is {_article(type(found).__name__)}, which cannot be called; expected a function, or an agent "
            f"with one of the methods {', '.join(METHODS)}",
        )
    return FunctionAgent(found, name=name)


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _is_pydantic_agent(found: Any) -> bool:
    pydantic_ai = sys.modules.get("pydantic_ai.agent")  # imported if such an agent exists
    return pydantic_ai is not None and isinstance(found, pydantic_ai.AbstractAgent)


def _name_of(found: Any) -> str:
    function = getattr(found, "func", found)  # a partial has the name of its function
    name = getattr(function, "__qualname__", None) or getattr(function, "name", None)
    return name if isinstance(name, str) else type(function).__name__


def _module(place: str, spec: str, forms: str) -> ModuleType:
    """Import the module at a place; modules in the working folder are found, too."""
    if place.endswith(".py"):
        return _module_of_file(Path(place), spec)
    if not all(part.isidentifier() for part in place.split(".")):
        raise AgentError(spec, f'"{place}" is no module name; expected {forms}')
    try:
        return import_here(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise _broken(place, spec, error) from error  # a module that the agent imports is missing
        near = suggest(error.name.rpartition(".")[2], _neighbours(error.name))
        raise AgentError(spec, f'there is no module "{error.name}" here or in this Python.{near}') from error
    except (Exception, SystemExit) as error:
        raise _broken(place, spec, error) from error


def _module_of_file(file: Path, spec: str) -> ModuleType:
    if not file.is_file():
        near = suggest(file.name, [each.name for each in file.parent.glob("*.py")])
        raise AgentError(spec, f"there is no file {file}.{near}")
    make_importable(file.resolve().parent)  # as Python does when it runs the file
    name = f"trivium_agent_{file.stem}"
    found = importlib.util.spec_from_file_location(name, file.resolve())
    if found is None or found.loader is None:
        raise AgentError(spec, f"{file} cannot be read as Python")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses and pickling look their module up
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(str(file), spec, error) from error
    return module


def _neighbours(name: str) -> list[str]:
    """List the modules next to the one that was not found."""
    package = name.rpartition(".")[0]
    paths = list(sys.modules[package].__path__) if package in sys.modules else None
    return [module.name for module in pkgutil.iter_modules(paths)]


def _broken(place: str, spec: str, error: BaseException) -> AgentError:
    """Make the error for a module that raised while it was imported, with the line that raised."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and frame.filename != __file__
    ]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return AgentError(spec, f"importing {place} failed{where}: {reason(error)}")


def _attribute(module: ModuleType, path: str, spec: str) -> Any:
    found: Any = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            known = [each for each in dir(found) if not each.startswith("_")]
            named = getattr(found, "__name__", type(found).__name__)
            owner = spec.rpartition(":")[0] if found is module else named
            raise AgentError(spec, f'{owner} has no "{name}".{suggest(name, known)}') from None
    return found


def import_here(module: str) -> ModuleType:
    """Import a module; modules in the working folder are found, however Python was started."""
    make_importable(Path.cwd())
    importlib.invalidate_caches()  # the file may be newer than the cached listing of its folder
    return importlib.import_module(module)


def make_importable(folder: Path) -> None:
    """Put a folder first on the import path."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
