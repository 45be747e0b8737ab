"""The agent of a suite (key ``agent``): how an agent behind an address is asked, and mistakes in that."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from trivium.errors import Problem
from trivium.http import VARIABLE
from trivium.masking import MASK, OutputMasker, mask
from trivium.records.validation import at, describe
from trivium.values import FileRecord


class AgentSettings(FileRecord, frozen=True, kw_only=True):
    """How an agent behind an address is asked, and where its answer holds the output.

    Attributes:
        url: Its address. ``${NAME}`` stands for an environment variable.
        method: The HTTP method; GET sends the fields of ``body`` as query parameters.
        headers: Headers of each request; they replace default headers of the same name. ``${NAME}`` stands
            for an environment variable, so that a header can hold a secret.
        body: The body as JSON, in whose texts ``{input}``, ``{messages}``, ``{message}``, ``{case}``,
            ``{repeat}``, ``{seed}``, ``{turn}`` (of a conversation, from 1) and ``{world}`` (a path) are
            replaced; a text that is nothing else becomes the value itself, of whatever type. None sends
            ``input``, ``case``, ``repeat`` and ``seed``, and the path of the suite's world if it has one as
            ``world``.
        output: Path of the output in the answer, such as ``choices[0].message.content``; None finds it.
    """

    url: str
    method: Literal["POST", "PUT", "GET"] = "POST"
    headers: dict[str, str] = {}
    body: Any = None
    output: str | None = None


_STEP = re.compile(r"\[(-?\d+)\]|(?:^|\.)([^.\[\]]+)")


def steps_of(path: str) -> list[str | int] | None:
    """The keys and places of a path such as ``choices[0].text``; None if it is none.

    >>> steps_of("choices[0].text")
    ['choices', 0, 'text']
    """
    found = list(_STEP.finditer(path))
    if not path or "".join(each[0] for each in found) != path:
        return None
    return [int(each[1]) if each[1] else each[2] for each in found]


def without_secrets(agent: str | AgentSettings | None) -> str | AgentSettings | None:
    """The agent as it is stored with a run: of its headers the names only."""
    if isinstance(agent, AgentSettings):
        return msgspec.structs.replace(agent, headers=dict.fromkeys(agent.headers, MASK))
    return agent and mask(agent)


def agent_problems(agent: AgentSettings) -> Iterator[Problem]:
    """List the mistakes in the settings of an agent whose types are correct."""
    bare = VARIABLE.sub("", agent.url)
    if mask(bare) != bare:
        yield Problem("agent.url", "holds a secret: write ${NAME}, an environment variable")
    if not re.match(r"(?i)https?://|\$\{", agent.url):
        yield Problem("agent.url", "is no address: expected http://… or https://…, or ${NAME}")
    yield from header_problems("agent.headers", agent.headers)
    if OutputMasker().value(agent.body) != agent.body:
        yield Problem("agent.body", "holds a secret: send it in a header, as ${NAME}")
    if agent.method == "GET" and not isinstance(agent.body, Mapping | None):
        found = describe(agent.body)
        yield Problem("agent.body", f"found {found}, expected a mapping of query parameters (method: GET)")
    if agent.output is not None and steps_of(agent.output) is None:
        yield Problem("agent.output", f"found {describe(agent.output)}, expected a path such as a.b[0].c")


def header_problems(where: str, headers: Mapping[str, str]) -> Iterator[Problem]:
    """List the headers that cannot be sent, and those with a secret that is no environment variable.

    Args:
        where: Place of the headers.
        headers: Their values by name.
    """
    for name, value in headers.items():
        place = at(where, name)
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            yield Problem(place, "is not a valid name of a header")
        elif "\n" in value or "\r" in value:
            yield Problem(place, "holds a line break")
        elif not value.isascii():
            yield Problem(place, "holds a character that a header cannot have")
        elif _is_secret(name, VARIABLE.sub("", value)):
            yield Problem(place, "holds a secret: write ${NAME}, an environment variable")


def _is_secret(name: str, literal: str) -> bool:
    """Whether a header contains a secret, by its name or by its value without variables."""
    bare = re.sub(r"(?i)\b(bearer|basic)\b", "", literal).strip()
    return bool(bare) and MASK in mask(f"{name}: {bare}")
