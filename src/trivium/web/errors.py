"""What the server answers when it refuses a request: one JSON shape, or OTLP's where OTLP is spoken.

Every refusal of the JSON interface is ``{"error": WORD, "message": SENTENCE}``. OTLP wants a
``google.rpc.Status`` in the encoding of the request
(https://opentelemetry.io/docs/specs/otlp/#failures).
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

import msgspec
from litestar.openapi.datastructures import ResponseSpec

TRACES_PATH: Final = "/v1/traces"
OTLP_PATHS: Final = {
    f"{before}/v1/{signal}": signal
    for signal in ("traces", "metrics", "logs")
    for before in ("", TRACES_PATH)
}
"""The signal that comes at each path. An exporter whose endpoint ends with a path may append it once more."""
PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"


class Status(NamedTuple):
    """Of a status that the server answers with: a word, the code of google.rpc, and what the API says."""

    word: str
    code: int = 0
    description: str = ""


STATUSES: Final = {
    303: Status("see_other"),
    400: Status("bad_request", 3, "A parameter or the body is wrong."),
    401: Status("unauthorized", 16, "A token is needed, or the token is wrong."),
    403: Status("forbidden", 7, "The token lacks a scope, or the header Host or Origin is refused."),
    404: Status("not_found", 5, "There is no such monitor, run, case or queue."),
    405: Status("method_not_allowed", 12),
    408: Status("timeout", 4, "The body did not come in time."),
    413: Status("too_large", 3, "The body is too large."),
    415: Status("unsupported_media_type", 3, "The body is not called JSON (header Content-Type)."),
    429: Status(
        "too_many_requests",
        8,
        "The token's quota is used up, or too many wrong tokens came from the address.",
    ),
    431: Status("head_too_large", 3, "The head of the request, its address included, is too large."),
    500: Status("internal", 13),
    503: Status("unavailable", 14, "The store cannot be used now, or too many requests are worked on."),
}
"""By status of HTTP; the codes are those of google/rpc/code.proto."""

_MOST_MESSAGE = 1_000
"""Characters of a message; it may quote what was wrong, of any length."""


RETRY_AFTER: Final = {"Retry-After": "2"}
"""Header of an answer that sends a client away for now. An exporter of OpenTelemetry gives its batch up when
10 s are over, or would be after this wait: with 5 s it tries twice, with 2 s five times."""


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """What was wrong.

    Attributes:
        error: A word for the kind of error; it belongs to the status.
        message: What, where, and what to do.
    """

    error: str
    message: str


class Refused(Exception):
    """A request is refused.

    Args:
        status: Status of the answer.
        message: What, where, and what to do.
        headers: Further headers of the answer.
        reason: A word that refusals are counted by.
        typed: What a person had typed into a form, by what it is called: the page shows it again.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        reason: str = "",
        typed: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.message = message if len(message) <= _MOST_MESSAGE else f"{message[:_MOST_MESSAGE]} …"
        self.headers = dict(headers or {})
        self.typed = dict(typed or {})
        self.reason = reason or STATUSES[status].word
        super().__init__(self.message)

    @property
    def body(self) -> ErrorBody:
        """The body of the answer in JSON."""
        return ErrorBody(error=STATUSES[self.status].word, message=self.message)

    def answer(self, *, otlp: Literal["protobuf", "json"] | None) -> tuple[bytes, str]:
        """Body and media type of the answer.

        Args:
            otlp: Encoding of the request if it is one of OTLP.
        """
        if otlp is None:
            return msgspec.json.encode(self.body), JSON
        code = STATUSES[self.status].code
        if otlp == "json":
            return msgspec.json.encode({"code": code, "message": self.message}), JSON
        text = self.message.encode()
        return b"\x08" + _varint(code) + b"\x12" + _varint(len(text)) + text, PROTOBUF


def otlp_encoding(path: str, headers: Iterable[tuple[bytes, bytes]]) -> Literal["protobuf", "json"] | None:
    """The encoding in which an answer is expected; None if the request is not one of OTLP."""
    if path not in OTLP_PATHS:
        return None
    return "protobuf" if media_type(header(headers, b"content-type")) == PROTOBUF else "json"


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """The first header with a name (lower case), or an empty text."""
    return next((value.decode("latin-1") for key, value in headers if key == name), "")


def media_type(content_type: str) -> str:
    """A content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def _varint(number: int) -> bytes:
    """A number in the encoding of protobuf."""
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def refusals(*more: int) -> dict[int, ResponseSpec]:
    """The refusals that a route may answer with."""
    return {
        status: ResponseSpec(ErrorBody, generate_examples=False, description=STATUSES[status].description)
        for status in sorted({400, 401, 403, 429, 431, 503, *more})
    }
