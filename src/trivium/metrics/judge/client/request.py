"""Requests to models, their cache key, their responses, the cache of these, and their errors."""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import blake2b
from threading import Lock
from typing import Any, Literal, Protocol

import msgspec

from trivium.masking import mask
from trivium.metrics.judge.client.providers import ModelDescription
from trivium.safe_text import sanitise

KEY_VERSION = "1"
"""Version of the cache key; change it to invalidate every cached response."""

NO_ANSWER = "(no answer)"
"""Stands for an empty answer that is sent back with an error."""

MAX_TOKENS = 10_000_000
"""Largest plausible token count of one request, several times any model's limit."""

OutputMode = Literal["native", "tool", "prompted"]

MAX_CHARS_PER_TOKEN = 29
"""Most characters that a token stands for, averaged over a prompt."""

_RUN = re.compile(r"(.)\1{3,}", re.DOTALL)
"""A run of one character, which may be a single token."""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """One request: everything that could change its answer, without secrets and timeouts.

    Attributes:
        provider: Protocol: ``openai-chat``, ``anthropic``, …
        address: Base URL, without credentials.
        model: The provider's name for the model.
        instructions: System message, the same for all cases.
        case: First part of the user message: the material to judge, the same for all samples.
        turns: The rest of the user message, then the model's answer, the user's correction, …: one text, or
            three if a malformed answer is sent back.
        schema: JSON schema of the answer.
        output: How the schema is sent: as the response format (``native``), as a tool, or in the instructions
            (``prompted``).
        temperature: 0 or more; None sends none.
        seed: Seed, for providers that accept one.
        max_tokens: Limit of the answer, tokens.
        limit: Parameter name under which ``max_tokens`` is sent; empty for the model's usual name, ``none``
            to leave it out.
        top_logprobs: Number of alternatives to request for each token, where available; 0 for none.
        sample: Index of the sample, which keeps several answers to one question apart in the cache.
        reasoning_effort: The suite's setting, or None.
        body: Further fields of the request body.
        headers: Further headers as written in the suite, with variables in place of secrets.
        marks: Parts that the provider is asked to cache: ``static`` the instructions, ``case`` the case too.
            It does not change the answer.
    """

    provider: str
    address: str
    model: str
    instructions: str
    case: str = ""
    turns: tuple[str, ...]
    schema: dict[str, Any]
    output: OutputMode
    temperature: float | None
    seed: int | None
    max_tokens: int
    top_logprobs: int
    sample: int
    limit: Literal["", "max_tokens", "max_completion_tokens", "none"] = ""
    reasoning_effort: str | None = None
    body: dict[str, Any] = {}
    headers: dict[str, str] = {}
    marks: Literal["", "static", "case"] = ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters of the request that a server may refuse."""
        sent = {
            "temperature": self.temperature is not None,
            "seed": self.seed is not None,
            "logprobs": self.top_logprobs > 0,
            "response_format": self.output == "native",
            "tools": self.output == "tool",
            "reasoning_effort": self.reasoning_effort is not None,
            "max_tokens": self.limit != "none",
            "cache_control": self.marks != "",
        }
        return (*(name for name, is_sent in sent.items() if is_sent), *self.body)

    def surely_cut(self, tokens: int) -> bool:
        """Whether the prompt is longer than the number of prompt tokens that a server reports.

        Definition: docs/definitions/judge.md#cut-prompt.
        """
        texts = (self.instructions, self.case, *self.turns)
        most = MAX_CHARS_PER_TOKEN * tokens
        return 0 < most < sum(map(len, texts)) and most < sum(
            len(_RUN.sub(r"\1\1\1", each)) for each in texts
        )

    @cached_property
    def key(self) -> str:
        """Cache key: a hash of every field except ``marks``, 64 hexadecimal digits."""
        # Do not sort the properties of the schema: models answer in their order.
        canonical = msgspec.json.encode([KEY_VERSION, msgspec.structs.replace(self, marks="")])
        return blake2b(canonical, digest_size=32).hexdigest()


def schema_prompt(schema: dict[str, Any]) -> str:
    """Return the end of a prompt that asks for an answer by a schema."""
    introduction = "\n\nAnswer with one JSON object that fits this JSON schema, and with nothing else:\n"
    return introduction + msgspec.json.encode(schema).decode()


class Alternative(msgspec.Struct, frozen=True, gc=False):
    """The natural logarithm of the probability of an alternative to a token, as reported by the provider."""

    logprob: float | None = None


class Token(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A token of an answer; ``top_logprobs`` are the most probable tokens at its position.

    ``bytes`` are given if they differ from those of ``token``, as for part of a character.
    """

    token: str
    logprob: float | None = None
    top_logprobs: list[Alternative] | None = None
    bytes: Any = None


def plausible_count(tokens: Any) -> int:
    """Return a reported number of tokens, or 0 if it is none or impossible."""
    if isinstance(tokens, bool) or not isinstance(tokens, int | float) or not 0 <= tokens <= MAX_TOKENS:
        return 0
    return int(tokens)


class ModelResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response of a model.

    Attributes:
        text: The answer's text, normally JSON.
        finish: ``stop``, ``length``, ``content_filter`` or ``tool_call``; None if not reported.
        model: The model that answered, as reported by the provider; empty if not reported.
        logprobs: Log-probabilities of the answer's tokens, or None.
        input_tokens: Input tokens, those from the provider's prompt cache included; 0 if not reported.
        output_tokens: Output tokens, reasoning included; 0 if not reported.
        cost_usd: Cost in USD, or None if the price is unknown.
        cached_tokens: Input tokens read from the provider's prompt cache, which cost less.
        cache_write_tokens: Input tokens written to that cache, which cost more.
    """

    text: str
    finish: str | None = None
    model: str = ""
    logprobs: list[Token] | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    cached_tokens: int = 0
    cache_write_tokens: int = 0


class AskResult(msgspec.Struct, frozen=True, kw_only=True):
    """A response, and what it took.

    Attributes:
        response: The response, new or cached.
        requests: Requests sent for it; 0 if it was cached or in flight already.
        sent: The request as it was sent.
        left_out: Parameters that the server has refused so far.
    """

    response: ModelResponse
    requests: int
    sent: ModelRequest
    left_out: tuple[str, ...] = ()


REASON_CHARS = 300

Kind = Literal["rate_limited", "provider_error", "connection", "timeout", "permanent"]


class RequestError(Exception):
    """A request failed; the message states the reason in one line of at most 300 characters, without secrets.

    Attributes:
        kind: ``rate_limited``: refused by a rate limit. ``provider_error``: the provider failed.
            ``connection``: the connection failed. ``timeout``: no answer in time. ``permanent``: a retry
            would fail, too.
        retry_after: Seconds to wait as requested by the provider, or None.
        billed: Whether the provider may bill the request nevertheless.
        same_for_all: Whether every request to the model would fail, because the key, the account or the model
            name is wrong. None if that is uncertain, because a firewall may have rejected this text alone.
        refused: The parameter that the server does not accept, see :attr:`ModelRequest.parameters`.
    """

    def __init__(
        self,
        why: str,
        *,
        kind: Kind,
        retry_after: float | None = None,
        billed: bool = False,
        same_for_all: bool | None = False,
        refused: str | None = None,
    ) -> None:
        super().__init__(mask(" ".join(sanitise(why)[0].split()))[:REASON_CHARS])
        self.kind = kind
        self.retry_after = retry_after
        self.billed = billed
        self.same_for_all = same_for_all
        self.refused = refused


OnSent = Callable[[], None]


class Client(Protocol):
    """Sends requests to a model, which ``description`` describes."""

    description: ModelDescription

    async def send(self, request: ModelRequest, on_sent: OnSent = lambda: None) -> ModelResponse:
        """Send a request and return the response; ``on_sent`` is called when it is written, as far as known.

        Raises:
            RequestError: If there is no response.
        """

    async def close(self) -> None:
        """Close the connections."""


class ResponseCache:
    """Keeps responses under the key of their request (:attr:`ModelRequest.key`): in memory, or in the store.

    Every method is safe to call from any thread.
    """

    def __init__(self) -> None:
        self._responses: dict[str, ModelResponse] = {}
        self._lock = Lock()

    def fetch(self, keys: Sequence[str]) -> dict[str, ModelResponse]:
        """Return the cached responses by key. May block on the disk, so it is called in a thread."""
        with self._lock:
            return {key: self._responses[key] for key in keys if key in self._responses}

    def put(self, key: str, response: ModelResponse) -> None:
        """Store a response, valid or not, and return at once. A stored response is not replaced."""
        with self._lock:
            self._responses.setdefault(key, response)

    def pending(self) -> int:
        """Number of responses that are not yet durable, and that a killed process loses; 0 in memory."""
        return 0

    def drop(self, keys: Sequence[str]) -> None:
        """Remove responses without a usable answer, so that a later run asks again."""
        with self._lock:
            for key in keys:
                self._responses.pop(key, None)
