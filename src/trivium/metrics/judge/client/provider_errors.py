"""Classifies provider errors: message, whether to retry, and whether the request may be billed."""

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from trivium.masking import mask
from trivium.metrics.judge.client.request import Kind, ModelRequest, RequestError

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError

SAME_FOR_ALL = frozenset({401, 402, 403, 404})
"""Statuses about the key, account or model, which concern every request."""

NEVER_SENT = ("pool", "connect")
"""Phases in which a connection fails before anything was sent: refused, no such host, no certificate."""

OF_ANOTHER = frozenset({408, 499, 502, 504, 520, 522, 524, 598, 599})
"""Statuses of gateway timeouts: whether the model did the work is unknown."""

PASSING = frozenset({408, 409, 425, 499})
"""Statuses below 500 that a retry may avoid."""

_BUSY = frozenset({429, 503, 529})

_STATUS_OF = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "insufficient_quota": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "invalid_request_error": 400,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 529,
    "api_error": 500,
    "server_error": 500,
}
"""Status that a type or code of an error stands for, where the error comes with status 200."""

_REFUSING = frozenset({400, 403, 404, 422, 500, 501})
"""Statuses by which servers refuse a parameter; some gateways make a 500 of it."""

_REFUSAL = re.compile(
    r"unsupported|not (?:yet )?(?:be )?(?:supported|permitted|allowed|available|accepted|recognized|enabled)"
    r"|n[o']t support|unknown (?:name|parameter|field|argument)|unrecognized|unexpected (?:keyword|field)"
    r"|extra inputs|extra_forbidden|is deprecated|only the default|unavailable now|enabled only|cannot both"
    r"|requires --|must be '(?:text|json_object)'|invalid parameter",
    re.IGNORECASE,
)

_CALLED = {
    "temperature": "temperature",
    "seed": "seed",
    "logprobs": r"top_?logprobs|logprobs|log probabilities",
    "max_tokens": "max_tokens|max_completion_tokens|max_output_tokens",
    "response_format": r"response_?format(?:\.\w+)*|response format|json_?schema|json schema"
    r"|output_config(?:\.\w+)*|output_?format|output format|structured outputs?|text\.format|guided_json",
    "tools": r"tool_choice|tools?|tool choice|tool use|tool calling|function calling|functions",
    "reasoning_effort": r"reasoning_effort|reasoning(?:\.effort)?|thinking",
}
"""What servers call the parameters that judges send."""

_NO_SUCH_MODEL = re.compile(
    r"not a valid model|invalid model name|unknown model|model_not_found"
    r"|model\b[^.]{0,80}\b(?:does not exist|not found|is not available)",
    re.IGNORECASE,
)

_WORDS_CHARS = 250


def error_of(request: ModelRequest, error: "ModelAPIError") -> RequestError:
    """Convert an error of PydanticAI, with the provider's message.

    Args:
        request: What was asked.
        error: The error.
    """
    from pydantic_ai import exceptions

    status: int | None = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    words = words_of(body) or ("" if status is not None else str(error))
    quota = isinstance(error, exceptions.ModelQuotaExceededError)
    refused = None if quota else refused_parameter(request.parameters, status, body, words)
    if refused is not None:
        return RequestError(_message(request.model, status, words), kind="permanent", refused=refused)
    return RequestError(
        _message(request.model, status, words),
        kind=_kind(error, status, quota=quota),
        retry_after=getattr(error, "retry_after", None),
        billed=_may_be_billed(error, status),
        same_for_all=quota or _same_for_all(status, words),
        maybe_one_text=status == 403,
    )


def error_within(request: ModelRequest, body: bytes) -> RequestError | None:
    """Return the error that a gateway sent with status 200, or None."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    error = decoded.get("error") if isinstance(decoded, Mapping) else None
    if not error:
        return None
    given = error if isinstance(error, Mapping) else {}
    status = next((found for key in ("code", "type") if (found := _status_of(given.get(key)))), None)
    words = words_of(error)
    same_for_all = status is not None and _same_for_all(status, words)
    kind: Kind = "provider_error"
    if status in _BUSY:
        kind = "rate_limited"
    elif status is not None and status < 500 and status not in PASSING:
        kind = "permanent"
    refused = refused_parameter(request.parameters, status, error, words)
    if refused is not None:
        return RequestError(
            _message(request.model, status, words), kind="permanent", billed=True, refused=refused
        )
    return RequestError(
        _message(request.model, status, words), kind=kind, billed=True, same_for_all=same_for_all
    )


def refused_parameter(sent: Collection[str], status: int | None, body: Any, words: str) -> str | None:
    """Return the request parameter that an error reports as not supported, or None.

    Args:
        sent: Parameters of the request.
        status: Of the error.
        body: Of the error.
        words: What it says.
    """
    if status not in _REFUSING or not _REFUSAL.search(words):
        return None
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    named = inner.get("param") if isinstance(inner, Mapping) else None
    # The field that the provider names goes before its words, which may name others ("use … instead").
    text = named if isinstance(named, str) and named not in ("", "None") else words
    found = [(match.start(), name) for name in sent if (match := _pattern(name).search(text)) is not None]
    return min(found)[1] if found else None


@cache
def _pattern(parameter: str) -> re.Pattern[str]:
    """What a parameter is called in errors."""
    names = _CALLED.get(parameter, re.escape(parameter))
    return re.compile(rf"(?<![a-z0-9_])(?:{names})(?![a-z0-9_])", re.IGNORECASE)


def words_of(body: Any) -> str:
    """Return the message of an error body in one line; empty without one."""
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if not isinstance(inner, Mapping):
            return words_of(inner)
        words = next(
            (found for key in ("message", "detail", "msg") if (found := words_of(inner.get(key)))), ""
        )
        metadata = inner.get("metadata")
        if isinstance(metadata, Mapping) and (raw := words_of(metadata.get("raw"))):
            words = f"{words} ({metadata.get('provider_name') or 'upstream'}: {raw})"
        code = inner.get("code")
        return f"{words} ({code})" if isinstance(code, str) and code and code not in words else words
    if isinstance(body, list):
        return "; ".join(filter(None, map(_item_words, body)))
    if not isinstance(body, str):
        return ""
    text = " ".join(body.split())
    return (
        "a page in place of an error" if text.startswith("<") else mask(text)[:_WORDS_CHARS]
    )  # a key cut in two would not be known


def _item_words(item: Any) -> str:
    """One entry of a list of validation errors, after the field that it is about."""
    words = words_of(item)
    where = item.get("loc") if isinstance(item, Mapping) else None
    return f"{'.'.join(map(str, where))}: {words}" if isinstance(where, list | tuple) and words else words


def _message(model: str, status: int | None, words: str) -> str:
    said = f"HTTP {status}" if status is not None else "error"
    return f"{model}: {said}: {words}" if words else f"{model}: {said}"


def _same_for_all(status: int | None, words: str) -> bool:
    return status in SAME_FOR_ALL or (status == 400 and _NO_SUCH_MODEL.search(words) is not None)


def _status_of(code: Any) -> int | None:
    """The HTTP status that the code or type of an error stands for."""
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    if isinstance(code, int) and not isinstance(code, bool):
        return code if 400 <= code < 600 else None
    return _STATUS_OF.get(code) if isinstance(code, str) else None


def _kind(error: "ModelAPIError", status: int | None, *, quota: bool) -> Kind:
    from pydantic_ai import exceptions

    if isinstance(error, exceptions.ModelConnectionError | exceptions.ModelRequestTimeout):
        return "connection"
    if quota:
        return "permanent"
    if isinstance(error, exceptions.ModelRateLimitError) or status in _BUSY:
        return "rate_limited"
    # Without a status a 200 brought no answer, such as the page of a gateway.
    passing = (exceptions.ModelUnavailableError, exceptions.ModelServerError)
    failing = isinstance(error, passing) or status is None or status in PASSING or status >= 500
    return "provider_error" if failing else "permanent"


def _may_be_billed(error: "ModelAPIError", status: int | None) -> bool:
    """Whether a provider may bill a request that it did not answer.

    An error that it tells of itself is not billed: a request that is turned away (400, 401, 403, 404, 413,
    422), one too many (429, 503, 529), a failure of its own (500). Nobody knows of a connection that was lost
    once something had been sent, of a 200 that holds no answer, and of what a gateway tells of a model behind
    it. A prompt that a filter caught was read, and Azure bills for that.
    """
    from pydantic_ai import exceptions

    if isinstance(error, exceptions.ModelConnectionError):
        return error.phase not in NEVER_SENT
    return status is None or status in OF_ANOTHER or error.provider_error_code == "content_filter"
