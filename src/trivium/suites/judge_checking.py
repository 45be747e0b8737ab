"""Checks of a suite's ``judge`` that types cannot make: request parameters, servers, the Likert step."""

import re
from collections.abc import Iterator

from trivium.errors import Problem, suggest
from trivium.masking import MASK, mask
from trivium.suites.rubrics.checking import wrong_step
from trivium.suites.settings import LEFT_OUT, JudgeSettings, ServerSettings
from trivium.suites.validation import at, describe

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""An environment variable in a text of a suite, such as ``${GATEWAY_KEY}``."""

_OWN_SETTINGS = ("temperature", "seed", "max_tokens", "reasoning_effort")
_OURS = frozenset(
    {"messages", "model", "stream", "n", "input", "system", "response_format", "tools", "tool_choice"}
)
"""Parts of a request that carry what is judged and the form of the answer."""


def judge_problems(judge: JudgeSettings) -> list[Problem]:
    """What of a judge's settings has the right types and still cannot be meant."""
    problems = []
    if wrong := wrong_step(judge.step):
        problems.append(Problem("judge.step", wrong))
    problems += _wrong_parameters(judge)
    named = {*judge.models, *(name for names in judge.models_by_complexity.values() for name in names)}
    for name, server in judge.servers.items():
        where = at("judge.servers", name)
        if name not in named:
            hint = suggest(name, named) or " Name a model of judge.models."
            problems.append(Problem(where, f"no model of this judge has this name.{hint}"))
        problems += _wrong_server(where, server)
    return problems


def _wrong_parameters(judge: JudgeSettings) -> Iterator[Problem]:
    for name, value in judge.parameters.items():
        where = at("judge.parameters", name)
        if value is None:
            if name not in LEFT_OUT:
                known = ", ".join(LEFT_OUT)
                yield Problem(where, f"is not sent anyway; null leaves out one of {known}")
            elif name in _OWN_SETTINGS and getattr(judge, name) is not None:
                yield Problem(where, f"leaves out what judge.{name} sets")
            elif name == "max_tokens" and (judge.budget_usd is not None or judge.budget_tokens is not None):
                yield Problem(where, "a budget needs a bound on the tokens of an answer")
        elif name in _OWN_SETTINGS:
            yield Problem(where, f"write it as judge.{name}")
        elif name in _OURS or name in ("logprobs", "top_logprobs"):
            yield Problem(
                where, f"found {describe(value)}: it is set by Trivium, and can only be left out (null)"
            )


def _wrong_server(where: str, server: ServerSettings) -> Iterator[Problem]:
    if server.base_url is not None and mask(server.base_url) != server.base_url:
        yield Problem(at(where, "base_url"), "holds a secret: write ${NAME}, an environment variable")
    for name, value in server.headers.items():
        place = at(at(where, "headers"), name)
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            yield Problem(place, "is no name that a header can have")
        elif "\n" in value or "\r" in value:
            yield Problem(place, "holds a line break")
        elif _is_secret(name, VARIABLE.sub("", value)):
            yield Problem(place, "holds a secret: write ${NAME}, an environment variable")
    for name in server.body:
        if name in _OURS - {"model"}:
            yield Problem(at(at(where, "body"), name), "is set by Trivium")


def _is_secret(name: str, literal: str) -> bool:
    """Whether what a header says besides its variables looks like a secret, or must be one by its name."""
    bare = re.sub(r"(?i)\b(bearer|basic)\b", "", literal).strip()
    return bool(bare) and MASK in mask(f"{name}: {bare}")
