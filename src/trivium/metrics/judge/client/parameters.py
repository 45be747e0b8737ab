"""Builds the request parameters of one model, without those that its server refuses.

Definition: docs/definitions/judge.md#unavailable-judge.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Literal

import msgspec

from trivium.metrics.judge.client.providers import ModelDescription
from trivium.metrics.judge.client.request import (
    KEY_VERSION,
    ModelRequest,
    ModelResponse,
    RequestError,
    ResponseCache,
    schema_prompt,
)
from trivium.suites.settings import JudgeSettings, ServerSettings

log = logging.getLogger(__name__)

REPLACEMENTS = {
    "response_format": "the JSON schema of the answer is sent as a tool",
    "tools": "the JSON schema of the answer is sent in the prompt",
}
"""Replacements of refused parameters, as logged; other refused parameters are left out."""


class Parameters:
    """Request parameters of one model; those that its server refuses by name are left out.

    Refusals are stored in the response cache, so that a later run does not repeat them.

    Attributes:
        key: Key of the refused parameters in the cache.
        restored: Whether the refusals of earlier runs have been read.
        marks: See :attr:`ModelRequest.marks`. A write to the provider's cache costs more than uncached tokens
            and a read less, so the case is marked only if several requests contain it.
        refused: Parameters that the server refused, in the order of refusal.
    """

    def __init__(
        self, name: str, settings: JudgeSettings, model: ModelDescription, cache: ResponseCache
    ) -> None:
        self._name = name
        self._model = model
        self._cache = cache
        parts = ["refused parameters", KEY_VERSION, model.provider, model.base_url, model.name]
        self.key = blake2b(msgspec.json.encode(parts), digest_size=32).hexdigest()
        self._settings = settings
        self._server = settings.servers.get(name) or ServerSettings()
        self._unset = frozenset(key for key, value in settings.parameters.items() if value is None)
        shown_again = settings.samples > 1 or not settings.together
        self.marks: Literal["", "static", "case"] = ""
        if model.marks_cache:
            self.marks = "case" if shown_again else "static"
        self.refused: tuple[str, ...] = ()
        self._adapting = False
        self._one_at_a_time = asyncio.Lock()
        self.restored = False

    def restore(self, cached: ModelResponse | None) -> None:
        """Take over the refusals of earlier runs, which are cached under ``key``."""
        if not self.restored and cached is not None:
            self.refused = msgspec.json.decode(cached.text, type=tuple[str, ...])
        self.restored = True

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Send one request at a time until it is known which parameters the server accepts."""
        if self._adapting:
            async with self._one_at_a_time:
                if self._adapting:  # the previous request may have settled it
                    yield
                    return
        yield

    def applied(self, request: ModelRequest) -> ModelRequest:
        """Return a request with the parameters that the server accepts."""
        left_out = {*self._unset, *self.refused}
        output = request.output
        if output == "native" and ("response_format" in left_out or not self._model.native_schema):
            output = "tool"
        if output == "tool" and "tools" in left_out:
            output = "prompted"
        instructions = request.instructions
        if output == "prompted":
            instructions += schema_prompt(request.schema)
        body = {**self._settings.parameters, **self._server.body}
        return msgspec.structs.replace(
            request,
            instructions=instructions,
            output=output,
            temperature=None if "temperature" in left_out else request.temperature,
            seed=None if "seed" in left_out else request.seed,
            top_logprobs=0 if "logprobs" in left_out else request.top_logprobs,
            limit=self._limit(),
            reasoning_effort=None if "reasoning_effort" in left_out else self._settings.reasoning_effort,
            body={key: value for key, value in body.items() if key not in left_out},
            headers=self._server.headers,
            marks="" if "cache_control" in left_out else self.marks,
        )

    def refuse(self, failure: RequestError, request: ModelRequest) -> bool:
        """Leave out or replace a refused parameter from now on; return False if that is impossible."""
        if (parameter := failure.refused) is None:
            return False
        if self.refused_since(request) is not None:
            return True  # another request was refused first
        if parameter == "max_tokens":
            bounded = self._settings.budget_usd is not None or self._settings.budget_tokens is not None
            if parameter in self.refused and bounded:
                return False  # a budget needs a limit on output tokens
        elif parameter in self._server.body or parameter in self.refused:
            return False
        self._adapting = True
        self.refused = (*self.refused, parameter)
        done = REPLACEMENTS.get(parameter, "it is left out")
        if parameter == "max_tokens" and self._limit() != "none":
            done = f"it is sent as {self._limit()}"
        log.warning(
            "the judge %s: %s is refused, and %s from now on: %s", self._name, parameter, done, failure
        )
        return True

    def refused_since(self, request: ModelRequest) -> str | None:
        """Return a parameter of a request that has been refused since it was built, or None."""
        if not self.refused:
            return None
        if request.limit != self._limit():
            return "max_tokens"
        return next(
            (name for name in request.parameters if name in self.refused and name != "max_tokens"), None
        )

    def answered(self) -> None:
        """Record that the server accepts the current parameters."""
        if self._adapting:
            self._adapting = False
            self._cache.drop([self.key])
            refused = msgspec.json.encode(self.refused).decode()
            self._cache.put(self.key, ModelResponse(text=refused, cost_usd=0.0))

    def _limit(self) -> str:
        """Choose :attr:`ModelRequest.limit`: after one refusal its other name, after two no limit."""
        times = self.refused.count("max_tokens")
        if "max_tokens" in self._unset or times > 1:
            return "none"
        if not times:
            return ""
        return "max_tokens" if self._model.completion_limit else "max_completion_tokens"
