"""Sends each case to an HTTP endpoint, and reads at most ``limits.output_bytes`` of the response."""

import asyncio
import re
import zlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import httpx
import msgspec

from trivium.agents.attempt import AgentFailure, AgentResponse, Request
from trivium.agents.response import ANSWER_FIELDS, AnswerFinder, decode_json, parse_response, too_large
from trivium.errors import AgentError
from trivium.http import VARIABLE, expand_variables, is_retryable_status, retry_after_seconds
from trivium.masking import MASK, mask
from trivium.suites.agent_settings import AgentSettings, steps_of
from trivium.values import json_text, text_or_json

_CONNECT_SECONDS = 30.0
_ERROR_BODY_BYTES = 2_000
"""Bytes of an error response's body that become part of the reason."""

DEFAULT_BODY = {name: f"{{{name}}}" for name in ("input", "case", "repeat", "seed")}


class EndpointAgent:
    """Calls an agent over HTTP.

    It receives ``{"input", "case", "repeat", "seed"}`` as JSON by POST, or what its settings say. A JSON
    response with the key ``output`` has the fields of an Attempt (see
    :func:`trivium.agents.response.parse_response`). Of another JSON object the one text under a name of
    ``ANSWER_FIELDS`` is the output, which is logged once; its other keys are read as beside ``output``. Any
    other JSON or text is the output itself, and 204 means that there is none. The whole body is bounded by
    ``limits.output_bytes`` and decompressed while it is read, so that a huge one does not fill memory. The
    reasons of failures mask the environment variables that its headers and address name.

    Args:
        agent: Its address, or how it is asked.

    Raises:
        AgentError: If an environment variable that it names is not set.
    """

    runs_off_loop = True

    def __init__(self, agent: str | AgentSettings) -> None:
        self._settings = agent = AgentSettings(url=agent) if isinstance(agent, str) else agent
        self.takes_world = agent.body is None or "{world}" in json_text(agent.body)
        self.name = mask(agent.url)
        expanded = partial(expand_variables, named_by="agent", fail=partial(AgentError, self.name))
        self.url = expanded(agent.url)
        self._headers = {name: expanded(value) for name, value in agent.headers.items()}
        named = {name for text in (agent.url, *agent.headers.values()) for name in VARIABLE.findall(text)}
        self._secrets = sorted((expanded(f"${{{name}}}") for name in named), key=len, reverse=True)
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finder = AnswerFinder(self.name, ANSWER_FIELDS)

    async def call(self, request: Request) -> AgentResponse:
        """Send the case once."""
        async with self._client_of_loop().stream(**self._sent(request)) as response:
            if not response.is_success:
                raise await self._status_failure(response)
            body = await read_decompressed_prefix(response, request.output_bytes + 1)
            if len(body) > request.output_bytes:
                raise too_large(request.output_bytes)
        if self._settings.output is not None:
            return _at_path(decode_json(body), self._settings.output)
        value, is_json = _decoded(response, body)
        found = self._finder.find(value) if is_json else None
        if found is None:
            return parse_response(value) if is_json else AgentResponse(output=value)
        field, output = found
        return parse_response({key: value[key] for key in value if key != field} | {"output": output})

    def _sent(self, request: Request) -> dict[str, Any]:
        """The arguments of one HTTP request."""
        settings, case = self._settings, request.case
        values = {
            "input": case.input,
            "messages": _messages(case.input),
            "message": _newest(case.input),
            "case": case.id,
            "repeat": request.repeat,
            "seed": request.seed,
            "turn": request.turn,
            "world": None if request.world is None or request.world.path is None else str(request.world.path),
        }
        default = DEFAULT_BODY if values["world"] is None else DEFAULT_BODY | {"world": "{world}"}
        body = _filled(default if settings.body is None else settings.body, values)
        headers = httpx.Headers({"Accept": "application/json, text/*;q=0.9, */*;q=0.1"})
        sent: dict[str, Any] = {"method": settings.method, "url": httpx.URL(self.url), "headers": headers}
        if settings.method == "GET":
            sent["url"] = sent["url"].copy_merge_params({key: text_or_json(body[key]) for key in body})
        else:
            headers["Content-Type"] = "application/json"
            sent["content"] = msgspec.json.encode(body)
        headers.update({"Accept-Encoding": ACCEPTED, **self._headers})
        return sent

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _status_failure(self, response: httpx.Response) -> AgentFailure:
        """Make the failure for a status other than 2xx, with the beginning of the body."""
        try:
            body = await read_decompressed_prefix(response, _ERROR_BODY_BYTES)
        except AgentFailure:  # the status is enough
            body = b""
        text = body.decode(errors="replace").strip()
        status = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        if response.has_redirect_location:
            text = f"redirects to {response.headers['location']}; name that address instead"
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return AgentFailure(
            f"{status}: {text}" if text else status,
            retryable=is_retryable_status(response.status_code),
            retry_after=retry_after_seconds(response.headers),
        )

    def _client_of_loop(self) -> httpx.AsyncClient:
        """Return the client of the current event loop; event loops cannot share connections."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),  # the attempt has its own time limit
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            )
        return self._client


_SLOT = re.compile(r"\{(input|messages|message|case|repeat|seed|turn|world)\}")


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    """A template of a body with the values in place of ``{input}`` and the like."""
    if isinstance(template, Mapping):
        return {key: _filled(inner, values) for key, inner in template.items()}
    if isinstance(template, list | tuple):
        return [_filled(inner, values) for inner in template]
    if not isinstance(template, str):
        return template
    if whole := _SLOT.fullmatch(template):
        return values[whole[1]]
    return _SLOT.sub(lambda found: text_or_json(values[found[1]]), template)


def _messages(value: Any) -> list[Any]:
    """Return the input as chat messages: its own messages, or one user message with it."""
    held = value.get("messages") if isinstance(value, Mapping) else value
    return held if isinstance(held, list) else [{"role": "user", "content": text_or_json(value)}]


def _newest(value: Any) -> Any:
    """The content of the newest message, for an agent that keeps the others itself."""
    newest = _messages(value)[-1:]
    return newest[0].get("content") if newest and isinstance(newest[0], Mapping) else value


def _at_path(answer: Any, path: str) -> AgentResponse:
    """The response whose output is at a path; the other keys of the answer are read as beside ``output``.

    Raises:
        AgentFailure: If the answer has nothing there; the message names keys, and no values.
    """
    value: Any = answer
    steps: list[Any] = steps_of(path) or []
    for done, step in enumerate(steps):
        try:
            value = value[step] if isinstance(value, list if isinstance(step, int) else dict) else {}[step]
        except (KeyError, IndexError):
            where = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in steps[:done])
            place = f"{where.lstrip('.')} is" if where else "it is"
            raise AgentFailure(f"the answer has nothing at {path}: {place} {_outline(value)}") from None
    rest = {key: answer[key] for key in answer if key != steps[0]} if isinstance(answer, dict) else {}
    return parse_response(rest | {"output": value})


def _outline(value: Any) -> str:
    """Describe the type of a JSON value, without its content."""
    if isinstance(value, dict):
        return f"an object with the keys {', '.join(value)}"[:500] if value else "an object without keys"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return {str: "a text", bool: "true or false", type(None): "null"}.get(type(value), "a number")


def _decoded(response: httpx.Response, body: bytes) -> tuple[Any, bool]:
    """The JSON value or the text of an answer, and whether it is JSON."""
    if response.status_code == httpx.codes.NO_CONTENT:
        return None, False
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return decode_json(body), True
    try:
        return body.decode(response.charset_encoding or "utf-8"), False
    except (UnicodeDecodeError, LookupError) as error:
        raise AgentFailure(f"the answer ({kind or 'of no stated type'}) is not text: {error}") from error


ACCEPTED = "gzip"
"""Content codings that the server may use (``Accept-Encoding``)."""

_GZIP_FRAME = 16 + zlib.MAX_WBITS


async def read_decompressed_prefix(response: "httpx.Response", size: int) -> bytes:
    """Read the first ``size`` bytes of a body; the rest is neither read nor decompressed.

    httpx itself would decompress any coding, one whole chunk at a time: 60 kB of zstd become 2 GB.

    Raises:
        AgentFailure: If the body has an unsupported coding, or is invalid gzip.
    """
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in {"", "identity", "gzip", "x-gzip"}:
        raise AgentFailure(f'the answer is packed as "{coding[:40]}", expected gzip or as it is')
    packed = zlib.decompressobj(_GZIP_FRAME) if coding.endswith("gzip") else None
    body = bytearray()
    async for chunk in response.aiter_raw():
        left = size - len(body)
        try:
            body += packed.decompress(chunk, left) if packed else chunk[:left]
        except zlib.error as error:
            raise AgentFailure(f"the answer is no gzip, though it says so: {error}") from error
        if len(body) >= size:
            return bytes(body)
    if packed and not packed.eof and response.num_bytes_downloaded:
        raise AgentFailure("the answer is gzip that ends in the middle")
    return bytes(body)
