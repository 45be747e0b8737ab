"""Classifies provider errors: message, whether to retry, and whether the request may be billed."""

import json
import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from trivium.http import retry_after_seconds
from trivium.masking import mask
from trivium.metrics.judge.client.request import Kind, ModelRequest, ModelResponse, RequestError
from trivium.safe_text import sanitise

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError

SAME_FOR_ALL_REQUESTS = frozenset({401, 402, 403, 404})
"""Statuses about the key, the account or the model: every other request would fail, too."""

GATEWAY_TIMEOUTS = frozenset({408, 499, 502, 504, 520, 522, 524, 598, 599})
"""Statuses of timeouts at a gateway; the model may have done the work and billed it."""

TRANSIENT = frozenset({408, 409, 425, 499})
"""Statuses below 500 after which a retry may succeed."""

_RATE_LIMITED = frozenset({429, 503, 529})

_CODES = {
    400: "invalid_request_error",
    401: "authentication_error invalid_api_key",
    402: "billing_error billing_hard_limit_reached credit_balance_exhausted insufficient_quota"
    " organization_spend_limit_exceeded organization_usage_limit_exceeded project_spend_limit_exceeded",
    403: "permission_error",
    404: "not_found_error model_not_found",
    429: "rate_limit_error rate_limit_exceeded",
    500: "api_error server_error",
    529: "overloaded_error",
}
_STATUS_OF = {code: status for status, codes in _CODES.items() for code in codes.split()}
"""HTTP status that corresponds to the type or code of an error, which may be sent with another one."""

_REFUSING = frozenset({400, 403, 404, 422, 500, 501})
"""Statuses with which servers refuse a parameter; some gateways turn them into 500."""

_REFUSAL = re.compile(
    r"unsupported|not (?:yet )?(?:be )?(?:supported|permitted|allowed|available|accepted|recognized|enabled)"
    r"|n[o']t support|unknown (?:name|parameter|field|argument)|unrecognized|unexpected (?:keyword|field)"
    r"|extra inputs|extra_forbidden|is deprecated|only the default|unavailable now|enabled only|cannot both"
    r"|requires --|must be '(?:text|json_object)'|invalid parameter",
    re.IGNORECASE,
)

_FEWER_ALLOWED = re.compile(
    r"greater than|(?:less|more) than|at most|between|max(?:imum)?\b|exceed|up to|<=|limit", re.IGNORECASE
)
"""Words of a server that allows fewer log-probabilities; a count that no suite chose can be left out."""

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

_NOT_AS_ASKED = frozenset({"json_validate_failed", "tool_use_failed"})
"""Groq's codes of a 400 for a model's answer that does not fit the schema."""

_NO_SUCH_MODEL = re.compile(
    r"not a valid model|invalid model name|unknown model|model_not_found"
    r"|model\b[^.]{0,80}\b(?:does not exist|not found|is not available)",
    re.IGNORECASE,
)

_NO_CREDIT = "credit balance is too low"
"""Anthropic's message for an account without credit, sent as 400; OpenAI sends such an error as 429."""

_MAX_MESSAGE_CHARS = 250


def error_of(request: ModelRequest, error: "ModelAPIError") -> RequestError:
    """Convert an error of PydanticAI, with the provider's message."""
    from pydantic_ai import exceptions

    if isinstance(error, exceptions.ModelConnectionError | exceptions.ModelRequestTimeout):
        sent = getattr(error, "phase", None) not in ("pool", "connect")  # before: never billed
        return RequestError(_message(request.model, None, str(error)), kind="connection", billed=sent)
    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    failure = read_error(request, status, body if status is not None or body else str(error))
    failure.retry_after = error.retry_after
    failure.billed |= error.provider_error_code == "content_filter"
    if isinstance(error, exceptions.ModelQuotaExceededError):
        failure.kind, failure.refused, failure.same_for_all = "permanent", None, True
    elif isinstance(error, exceptions.ModelRateLimitError) and failure.refused is None:
        failure.kind = "rate_limited"
    return failure


def decoded(body: bytes) -> Any:
    """Decode the body of an error; one that is no JSON is a text."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode(errors="replace")


def error_of_response(
    request: ModelRequest, status: int, headers: Mapping[str, str], body: Any
) -> RequestError:
    """Read a response without an answer, of any status; names of headers are in lower case."""
    if status >= 400:
        return read_error(request, status, body, retry_after=retry_after_seconds(headers))
    error = body.get("error") if isinstance(body, Mapping) else None
    if not error:
        why = f"{request.model}: the reply holds no answer that can be read"
        return RequestError(why, kind="provider_error", billed=True)
    given = error if isinstance(error, Mapping) else {}
    named = next((found for key in ("code", "type") if (found := _status_of(given.get(key)))), None)
    return read_error(request, named, error, billed=True)


def rejected_answer(body: Any) -> ModelResponse | None:
    """Return the answer that a server rejects because it does not fit the schema; it counts as malformed."""
    error = body.get("error", body) if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping) or error.get("code") not in _NOT_AS_ASKED:
        return None
    text = error.get("failed_generation")
    return ModelResponse(text=sanitise(text)[0] if isinstance(text, str) else "")


def read_error(
    request: ModelRequest,
    status: int | None,
    body: Any,
    *,
    retry_after: float | None = None,
    billed: bool = False,
) -> RequestError:
    """Read an error that a provider reports.

    What a provider rejects is not billed; a gateway timeout may be, and what Azure's content filter rejects.

    Args:
        request: The request that failed.
        status: HTTP status of the error, or None.
        body: The decoded body, or a text.
        retry_after: Seconds to wait as requested by the provider, or None.
        billed: Whether the provider may bill the request in any case.
    """
    message = message_of(body)
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    words = {str(inner.get(key)) for key in ("code", "type")} if isinstance(inner, Mapping) else set()
    quota = 402 in (status, *map(_status_of, words)) or _NO_CREDIT in message.lower()
    refused = None if quota else refused_parameter(request.parameters, status, body, message)
    unusable = quota or status in SAME_FOR_ALL_REQUESTS or (status == 400 and _NO_SUCH_MODEL.search(message))
    kind: Kind = "permanent"
    if status in _RATE_LIMITED and not quota:
        kind = "rate_limited"
    elif refused is None and not quota and (status is None or status in TRANSIENT or status >= 500):
        kind = "provider_error"
    return RequestError(
        _message(request.model, status, message),
        kind=kind,
        retry_after=retry_after,
        billed=billed or status is None or status in GATEWAY_TIMEOUTS or "content_filter" in words,
        same_for_all=refused is None and (None if status == 403 else bool(unusable)),
        refused=refused,
    )


def refused_parameter(sent: Collection[str], status: int | None, body: Any, message: str) -> str | None:
    """Return the parameter of those sent that an error reports as not supported, or None."""
    if status not in _REFUSING:
        return None
    if not _REFUSAL.search(message):
        sent = ("logprobs",) if "logprobs" in sent and _FEWER_ALLOWED.search(message) else ()
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


def _status_of(code: Any) -> int | None:
    """HTTP status that corresponds to the code or type of an error."""
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    if isinstance(code, int) and not isinstance(code, bool):
        return code if 400 <= code < 600 else None
    return _STATUS_OF.get(code) if isinstance(code, str) else None
