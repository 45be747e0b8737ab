"""ModelRequest, ModelResponse, cache key; RequestError."""

from hashlib import blake2b
from typing import Any, Literal

import msgspec

from trivium.masking import mask

KEY_VERSION = "1"
"""Changes when the same call would have to be asked anew."""

MOST_TOKENS = 10_000_000
"""Of one request, several times what any model takes; a provider that counts more miscounts."""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request: everything that could change its answer, and nothing else.

    No secret is in it and no time limit: neither changes what a model says.

    Attributes:
        provider: How it is spoken to: ``openai-chat``, ``anthropic``, …
        address: Base URL, without what could be a secret.
        model: The provider's name of it.
        instructions: Of the judge: the same for all cases.
        case: What is judged: the user's first words, the same for all samples.
        turns: What the user said after it, the model, the user, …: one text, or three when a malformed
            answer is sent back.
        schema: JSON schema of the answer.
        output: Whether the provider is asked for that schema, or for a call of a tool that takes it, or
            whether the instructions ask for it in words.
        temperature: 0 or more; None sends none.
        seed: For providers that take one.
        max_tokens: Most tokens of the answer.
        limit: The name that ``max_tokens`` is sent by: the usual one for the model (empty), or this one, or
            that it is not sent at all.
        top_logprobs: Alternatives of each token that are asked for, where they can be had; 0 for none.
        sample: Index of the answer among several to the same question, so that they stay independent.
        reasoning_effort: As the suite has it, or None.
        body: Further fields of the request.
        headers: Further headers as the suite writes them: variables stand for secrets.
        marks: What of it a provider is told to cache: the instructions, and with ``case`` the case as well.
            That changes no answer.
    """

    provider: str
    address: str
    model: str
    instructions: str
    case: str = ""
    turns: tuple[str, ...]
    schema: dict[str, Any]
    output: Literal["native", "tool", "prompted"]
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
        """Names of the request parameters that it sends, which a server may refuse."""
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

    def key(self) -> str:
        """What its answer is kept under: a hash of every field but ``marks``, 64 hexadecimal digits."""
        # The order of a schema's properties is kept: models answer in it.
        canonical = msgspec.json.encode([KEY_VERSION, msgspec.structs.replace(self, marks="")])
        return blake2b(canonical, digest_size=32).hexdigest()


class Alternative(msgspec.Struct, frozen=True, gc=False):
    """A token that might have stood in place of another.

    Attributes:
        logprob: Natural logarithm of its probability, as the provider gives it.
    """

    logprob: float | None = None


class Token(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A token of an answer, and how probable it was.

    Attributes:
        token: Its text.
        logprob: Natural logarithm of its probability, as the provider gives it.
        top_logprobs: The most probable tokens in its place.
        bytes: Its bytes where they are not those of its text: it is a piece of a character.
    """

    token: str
    logprob: float | None = None
    top_logprobs: list[Alternative] | None = None
    bytes: Any = None


class ModelResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What came back.

    Attributes:
        text: The JSON of the answer, or whatever stood in its place.
        finish: Why it ended: ``stop``, ``length``, ``content_filter``, ``tool_call``, or None where the
            provider does not say.
        model: Who answered, as the provider names it.
        logprobs: Of its tokens, or None.
        input_tokens: Read, those from the provider's cache included; 0 where the provider does not say.
        output_tokens: Written, those of its reasoning included; likewise.
        cost_usd: Or None where no price is known.
        cached_tokens: Of those read, how many the provider had in its own cache and bills less for.
        cache_write_tokens: Of those read, how many it put into its cache and bills more for.
    """

    text: str
    finish: str | None
    model: str
    logprobs: list[Token] | None
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    cached_tokens: int = 0
    cache_write_tokens: int = 0


REASON_CHARS = 300

Kind = Literal["rate_limited", "provider_error", "connection", "timeout", "permanent"]


class RequestError(Exception):
    """A request came to nothing; the text says why, in one line without secrets.

    Attributes:
        kind: ``rate_limited``: the provider refused one request too many. ``provider_error``: the provider
            failed. ``connection``: the connection failed. ``timeout``: no answer came in time.
            ``permanent``: a retry would not help.
        retry_after: Seconds that the provider asks to be left alone, or None.
        billed: Whether it may be billed all the same.
        sent: Whether there was a request at all.
        same_for_all: Whether every other request to the model would meet the same: the key, the account or
            the model is what is wrong.
        refused: The parameter of the request that the server does not take, or None.
        maybe_one_text: Whether that is not certain: a firewall may turn away one text alone.
    """

    def __init__(
        self,
        why: str,
        *,
        kind: Kind,
        retry_after: float | None = None,
        billed: bool = False,
        sent: bool = True,
        same_for_all: bool = False,
        maybe_one_text: bool = False,
        refused: str | None = None,
    ) -> None:
        super().__init__(mask(" ".join(why.split()))[:REASON_CHARS])
        self.kind = kind
        self.retry_after = retry_after
        self.billed = billed
        self.sent = sent
        self.same_for_all = same_for_all
        self.maybe_one_text = maybe_one_text
        self.refused = refused

    def again(self) -> "RequestError":
        """Return a copy of this error for another request."""
        return RequestError(
            str(self),
            kind=self.kind,
            retry_after=self.retry_after,
            billed=self.billed,
            sent=self.sent,
            same_for_all=self.same_for_all,
            maybe_one_text=self.maybe_one_text,
            refused=self.refused,
        )


class GivenUp(Exception):
    """A model gave no usable answer; the text says why, in one line."""


class ParameterRefused(GivenUp):
    """A model's server does not take a parameter of the request.

    Attributes:
        parameter: Which, by the name that :attr:`ModelRequest.parameters` has for it.
    """

    def __init__(self, why: str, parameter: str) -> None:
        super().__init__(why)
        self.parameter = parameter
