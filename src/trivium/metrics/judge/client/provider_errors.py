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

SAME_FOR_ALL_REQUESTS = frozenset({401, 402, 403, 404})
"""Statuses about the key, the account or the model: every other request would fail, too."""

PHASES_BEFORE_SENDING = ("pool", "connect")
"""Phases of a connection before anything is sent: a failure there (host, certificate) is never billed."""

GATEWAY_TIMEOUTS = frozenset({408, 499, 502, 504, 520, 522, 524, 598, 599})
"""Statuses of timeouts at a gateway; the model may have done the work and billed it."""

TRANSIENT = frozenset({408, 409, 425, 499})
"""Statuses below 500 after which a retry may succeed."""

_RATE_LIMITED = frozenset({429, 503, 529})

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
"""HTTP status that corresponds to the type or code of an error sent with status 200."""

_REFUSING = frozenset({400, 403, 404, 422, 500, 501})
"""Statuses with which servers refuse a parameter; some gateways turn them into 500."""

_REFUSAL = re.compile(
    r"unsupported|not (?:yet )?(?:be )?(?:supported|permitted|allowed|available|accepted|recognized|enabled)"
    r"|n[o']t support|unknown (?:name|parameter|field|argument)|unrecognized|unexpected (?:keyword|field)"
    r"|extra inputs|extra_forbidden|is deprecated|only the default|unavailable now|enabled only|cannot both"
    r"|requires --|must be '(?:text|json_object)'|invalid parameter",
    re.IGNORECASE,
)

_PARAMETER_PATTERNS = {
    "temperature": "temperature",
    "seed": "seed",
    "logprobs": r"top_?logprobs|logprobs|log probabilities",
    "max_tokens": "max_tokens|max_completion_tokens|max_output_tokens",
    "response_format": r"response_?format(?:\.\w+)*|response format|json_?schema|json schema"
    r"|output_config(?:\.\w+)*|output_?format|output format|structured outputs?|text\.format|guided_json",
    "tools": r"tool_choice|tools?|tool choice|tool use|tool calling|function calling|functions",
    "reasoning_effort": r"reasoning_effort|reasoning(?:\.effort)?|thinking",
}
"""Patterns of the names that servers use for the parameters of a request."""

_NO_SUCH_MODEL = re.compile(
    r"not a valid model|invalid model name|unknown model|model_not_found"
    r"|model\b[^.]{0,80}\b(?:does not exist|not found|is not available)",
    re.IGNORECASE,
)

_MAX_MESSAGE_CHARS = 250


def error_of(request: ModelRequest, error: "ModelAPIError") -> RequestError:
    """Convert an error of PydanticAI, with the provider's message.

    Args:
        request: The request that failed.
        error: PydanticAI's error.
    """
    from pydantic_ai import exceptions

    status: int | None = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    message = message_of(body) or ("" if status is not None else str(error))
    quota = isinstance(error, exceptions.ModelQuotaExceededError)
    refused = None if quota else refused_parameter(request.parameters, status, body, message)
    if refused is not None:
        return RequestError(_message(request.model, status, message), kind="permanent", refused=refused)
    return RequestError(
        _message(request.model, status, message),
        kind=_kind(error, status, quota=quota),
        retry_after=getattr(error, "retry_after", None),
        billed=_may_be_billed(error, status),
        same_for_all=quota or _same_for_all(status, message),
        maybe_one_text=status == 403,
    )


def error_in_body(request: ModelRequest, body: bytes) -> RequestError | None:
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
    message = message_of(error)
    same_for_all = status is not None and _same_for_all(status, message)
    kind: Kind = "provider_error"
    if status in _RATE_LIMITED:
        kind = "rate_limited"
    elif status is not None and status < 500 and status not in TRANSIENT:
        kind = "permanent"
    refused = refused_parameter(request.parameters, status, error, message)
    if refused is not None:
        return RequestError(
            _message(request.model, status, message), kind="permanent", billed=True, refused=refused
        )
    return RequestError(
        _message(request.model, status, message), kind=kind, billed=True, same_for_all=same_for_all
    )


def refused_parameter(sent: Collection[str], status: int | None, body: Any, message: str) -> str | None:
    """Return the request parameter that an error reports as not supported, or None.

    Args:
        sent: Parameters of the request.
        status: HTTP status of the error, or None.
        body: Body of the error.
        message: Message of the error.
    """
    if status not in _REFUSING or not _REFUSAL.search(message):
        return None
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    named = inner.get("param") if isinstance(inner, Mapping) else None
    # Prefer the field that the provider names: its message may name others, too ("use … instead").
    text = named if isinstance(named, str) and named not in ("", "None") else message
    found = [
        (match.start(), name) for name in sent if (match := _parameter_pattern(name).search(text)) is not None
    ]
    return min(found)[1] if found else None


@cache
def _parameter_pattern(parameter: str) -> re.Pattern[str]:
    """Pattern of the names that a parameter has in errors."""
    names = _PARAMETER_PATTERNS.get(parameter, re.escape(parameter))
    return re.compile(rf"(?<![a-z0-9_])(?:{names})(?![a-z0-9_])", re.IGNORECASE)


def message_of(body: Any) -> str:
    """Return the message of an error body in one line; empty without one."""
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if not isinstance(inner, Mapping):
            return message_of(inner)
        message = next(
            (found for key in ("message", "detail", "msg") if (found := message_of(inner.get(key)))), ""
        )
        metadata = inner.get("metadata")
        if isinstance(metadata, Mapping) and (raw := message_of(metadata.get("raw"))):
            message = f"{message} ({metadata.get('provider_name') or 'upstream'}: {raw})"
        code = inner.get("code")
        return f"{message} ({code})" if isinstance(code, str) and code and code not in message else message
    if isinstance(body, list):
        return "; ".join(filter(None, map(_item_message, body)))
    if not isinstance(body, str):
        return ""
    text = " ".join(body.split())
    if text.startswith("<"):
        return "a page in place of an error"
    return mask(text)[:_MAX_MESSAGE_CHARS]  # mask first: half a key would not be recognised


def _item_message(item: Any) -> str:
    """One entry of a list of validation errors, preceded by the field that it concerns."""
    message = message_of(item)
    where = item.get("loc") if isinstance(item, Mapping) else None
    return (
        f"{'.'.join(map(str, where))}: {message}" if isinstance(where, list | tuple) and message else message
    )


def _message(model: str, status: int | None, message: str) -> str:
    label = f"HTTP {status}" if status is not None else "error"
    return f"{model}: {label}: {message}" if message else f"{model}: {label}"


def _same_for_all(status: int | None, message: str) -> bool:
    return status in SAME_FOR_ALL_REQUESTS or (status == 400 and _NO_SUCH_MODEL.search(message) is not None)


def _status_of(code: Any) -> int | None:
    """HTTP status that corresponds to the code or type of an error."""
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
    if isinstance(error, exceptions.ModelRateLimitError) or status in _RATE_LIMITED:
        return "rate_limited"
    # No status means a 200 without an answer, such as the page of a gateway.
    transient = (exceptions.ModelUnavailableError, exceptions.ModelServerError)
    failing = isinstance(error, transient) or status is None or status in TRANSIENT or status >= 500
    return "provider_error" if failing else "permanent"


def _may_be_billed(error: "ModelAPIError", status: int | None) -> bool:
    """Whether a provider may bill a request that it did not answer.

    Errors that the provider itself reports are not billed: rejected requests (400, 401, 403, 404, 413, 422),
    rate limits (429, 503, 529) and server errors (500). Billing is unknown for a connection lost after
    sending, for a 200 without an answer, and for gateway timeouts. Azure bills prompts that its content
    filter rejects.
    """
    from pydantic_ai import exceptions

    if isinstance(error, exceptions.ModelConnectionError):
        return error.phase not in PHASES_BEFORE_SENDING
    return status is None or status in GATEWAY_TIMEOUTS or error.provider_error_code == "content_filter"
