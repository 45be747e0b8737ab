"""Providers whose requests are built here: their addresses and keys, and what their models accept.

What models accept (``_MODELS``) is taken from PydanticAI 2.68's profiles, which quote the providers'
documentation; a test compares each request with PydanticAI's. A parameter that a model refuses all the same
is left out (:mod:`~trivium.metrics.judge.client.parameters`).
"""

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from trivium import http
from trivium._version import __version__
from trivium.errors import MissingExtra
from trivium.masking import mask
from trivium.suites.settings import ServerSettings

Format = Literal["chat", "responses", "messages"]

NO_KEY = "api-key-not-set"
"""Key that is sent to a private server if none is set."""

ANTHROPIC_VERSION = "2026-10-21"
"""Version of the Messages API, as in Anthropic's SDK 2.12."""


Cause = Literal["budget", "failing", "unavailable", "unusable", "cut"]
"""Why a judge gave no usable answer: the budget is used up; the provider fails, and may not later on;
the model cannot be used; it answered in another form, or refused to; its server cut the prompt."""


class GivenUp(Exception):
    """A model gave no usable answer; the message states the reason in one line.

    Attributes:
        cause: The reason in a word.
    """

    cause: Cause = "failing"

    def __init__(self, why: str, *, cause: Cause | None = None) -> None:
        super().__init__(why)
        self.cause = cause or self.cause


class ModelUnavailable(GivenUp):
    """A model cannot be used."""

    cause = "unavailable"


class Provider(NamedTuple):
    """A provider with one of the three request formats.

    Attributes:
        format: Its request format.
        base_url: Empty for servers of one's own.
        needs: Environment variables of which one must be set, if the suite gives no base URL.
        key: Environment variable with the key.
        url: Environment variable with another base URL.
    """

    format: Format
    base_url: str
    needs: tuple[str, ...]
    key: str = ""
    url: str = ""


def _server(kind: str) -> Provider:
    return Provider("chat", "", (f"{kind}_BASE_URL",), f"{kind}_API_KEY", f"{kind}_BASE_URL")


_OPENAI_URL, _OPENAI_NAMES = "https://api.openai.com/v1", ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_CLAUDE_NAMES = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
_CHAT = Provider("chat", _OPENAI_URL, _OPENAI_NAMES, *_OPENAI_NAMES)

PROVIDERS: Mapping[str, Provider] = {
    "openai": _CHAT,
    "openai-chat": _CHAT,
    "openai-responses": _CHAT._replace(format="responses"),
    "anthropic": Provider("messages", "https://api.anthropic.com", _CLAUDE_NAMES[:1], *_CLAUDE_NAMES),
    "deepseek": Provider("chat", "https://api.deepseek.com", ("DEEPSEEK_API_KEY",), "DEEPSEEK_API_KEY"),
    "fireworks": Provider(
        "chat", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",), "FIREWORKS_API_KEY"
    ),
    "litellm": Provider("chat", _OPENAI_URL, (), url="OPENAI_BASE_URL"),
    "ollama": _server("OLLAMA"),
    "together": Provider("chat", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",), "TOGETHER_API_KEY"),
    "vllm": _server("VLLM"),
}
"""Providers by the beginning of a model's name."""

When = Literal["always", "unthinking", "never"]
"""Whether a model accepts something: always, while it does not reason, or never."""


class ModelDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a model on which requests depend.

    Attributes:
        provider: Its provider, as in requests: ``openai-chat``, ``anthropic``, …
        name: The provider's name for it; of one that Python code makes where it is.
        base_url: Its base URL; of one that Python code makes what it calls itself.
        native_schema: Whether it accepts a JSON schema for its answer.
        strict: Whether the schema may be marked as strict.
        schema_in_prompt: Whether it sees a schema only if the prompt holds it, too.
        completion_limit: Whether the limit of tokens is sent as ``max_completion_tokens``.
        marks_cache: Whether the provider caches only marked parts of a prompt. Others cache automatically or
            not at all.
        thinking: Whether it reasons before it answers if no effort is requested: ``always``, or by
            ``default``, unless the effort is ``none``.
        sampling: Whether it accepts temperature and log-probabilities.
        forced_tool: Whether it can be made to call a tool.
        efforts: Reasoning efforts of a Claude model, lowest first; without ``max`` it has a budget of tokens.
        screened: Whether special tokens in texts are broken up, because the server may obey them.
    """

    provider: str
    name: str
    base_url: str
    native_schema: bool = True
    strict: bool = True
    schema_in_prompt: bool = False
    completion_limit: bool = True
    marks_cache: bool = False
    thinking: Literal["", "default", "always"] = ""
    sampling: When = "always"
    forced_tool: When = "always"
    efforts: tuple[str, ...] = ()
    screened: bool = False

    def thinks(self, effort: str | None) -> bool:
        """Whether the model reasons before it answers, because of a requested effort or by default."""
        return self.thinking != "" if effort is None else effort != "none"

    def samples(self, effort: str | None) -> bool:
        """Whether it accepts temperature and log-probabilities with an effort."""
        return self._accepts(self.sampling, effort)

    def forces_tool(self, effort: str | None) -> bool:
        """Whether it can be made to call a tool with an effort."""
        return self._accepts(self.forced_tool, effort)

    def _accepts(self, when: When, effort: str | None) -> bool:
        thinks = self.thinking == "always" or self.thinks(effort)
        return when == "always" or (when == "unthinking" and not thinks)


_OPENAI = r"(openai-(chat|responses):|litellm:(openai/)?)"
_CLAUDE = r"(anthropic:|litellm:anthropic/)claude-"
_EFFORTS = ("low", "medium", "high")
_BY_GATEWAY = "deepseek(-ai)?|meta(-llama|-models)?|qwen|alibaba|moonshotai|amazon|bedrock|zai(-org)?|z-ai"

_MODELS: tuple[tuple[str, dict[str, Any]], ...] = (
    (_OPENAI + r"(gpt-5(?!-chat)|gpt-6|o[134])", {"sampling": "unthinking"}),
    (_OPENAI + r"(o[134]|gpt-5(?!-chat|\.[1-4]))", {"thinking": "always"}),
    (_OPENAI + r"gpt-5\.([123]-chat|[24]-pro|1-codex)", {"thinking": "always"}),
    (_OPENAI + r"(gpt-5\.[56](?!-pro)|gpt-5\.6|gpt-6-(sol|luna)|gpt-6\.1-terra)", {"thinking": "default"}),
    (_OPENAI + r"(gpt-6-astra|gpt-6\.1-sol)", {"thinking": "always"}),
    (r"(anthropic:|litellm:anthropic/)", {"native_schema": False, "forced_tool": "unthinking"}),
    (r"anthropic:", {"marks_cache": True}),
    (_CLAUDE + r"((fable|mythos|opus|sonnet)-5|haiku-(4-5|5-5))", {"native_schema": True}),
    (_CLAUDE + r"(sonnet-4-[56]|opus-4-[15678])", {"native_schema": True}),
    (_CLAUDE + r"opus-4-5", {"efforts": _EFFORTS}),
    (_CLAUDE + r"(opus|sonnet)-4-6", {"efforts": (*_EFFORTS, "max")}),
    (
        _CLAUDE + r"((fable|mythos|opus|sonnet)-5|haiku-5-5|opus-4-[78])",
        {"efforts": (*_EFFORTS, "xhigh", "max"), "sampling": "never"},
    ),
    (_CLAUDE + r"(haiku-5-5|sonnet-5|opus-5)", {"thinking": "default"}),
    (_CLAUDE + r"(fable-5|mythos-|opus-5-5)", {"thinking": "always"}),
    (_CLAUDE + r"sonnet-5-5", {"forced_tool": "never"}),
    (r"deepseek:", {"native_schema": False, "completion_limit": False}),
    (r"deepseek:deepseek-(v4-|flash$)", {"thinking": "default", "forced_tool": "unthinking"}),
    (r"deepseek:deepseek-reasoner$", {"thinking": "always", "forced_tool": "never"}),
    (rf"(together:|litellm:({_BY_GATEWAY})/)", {"native_schema": False}),
    (r"together:(openai/gpt-oss|google/gem|x-?ai/grok)", {"native_schema": True}),
    (r"(together|litellm):qwen/qwen-?3[.-]5", {"native_schema": True}),
    (r"together:deepseek-ai/deepseek-v4-", {"forced_tool": "never"}),
    (r"(together|litellm):deepseek(-ai)?/(deepseek-(r1|reasoner$)|r1$)", {"thinking": "always"}),
    (r"(ollama|vllm|fireworks):deepseek-(r1|reasoner$)", {"thinking": "always"}),
    (r"vllm:", {"schema_in_prompt": True}),
    (r"vllm:qwen3(?!-coder|\.8).*-thinking", {"thinking": "always"}),
    (r"ollama:", {"strict": False}),
    (r"ollama:.*-cloud$", {"native_schema": False}),
    (r"(ollama:|vllm:|(together|litellm):openai/)gpt-oss", {"forced_tool": "never"}),
    (
        r"(ollama:|vllm:|fireworks:|(together|litellm):qwen/)qwen-3-coder",
        {"strict": False, "forced_tool": "never"},
    ),
    (r"litellm:google/gemini-(?!1|2\.[0-4]|pro$)(?!.*flash).*pro", {"thinking": "always"}),
)
"""What models accept, by the beginning of ``provider:model``; where several rows match, the last one wins."""

_CLOSED = re.compile(
    r"(.*/)?(claude|cohere-|command|gemini|grok|muse-|nova-|sonar|chatgpt|codex|computer-use|dall-e|ft:"
    r"|gpt-(?!oss)|o[134]|omni-|sora|text-|tts-|whisper)"
)
"""Names of models that only their makers serve, who take special tokens for text."""


def provider_and_model(name: str) -> tuple[str, str]:
    """Split a model's name into provider and model, as in requests."""
    provider, _, model = name.partition(":")
    return ("openai-chat" if provider == "openai" else provider), model


def describe_direct(name: str, server: ServerSettings | None = None) -> ModelDescription | None:
    """Describe a model whose requests are built here; None for one of another provider.

    Args:
        name: Its PydanticAI name.
        server: Its server, if not the one that the environment names.

    Raises:
        ModelUnavailable: If the extra, its key or its address is missing or wrong.
    """
    prefix, model = provider_and_model(name)
    if (provider := PROVIDERS.get(prefix)) is None:
        return None
    if find_spec("aiohttp") is None:
        raise ModelUnavailable(str(MissingExtra("judge", "a judge")))
    given = None if server is None or server.base_url is None else expand_variables(server.base_url)
    check_key(name, needed=given is None)
    base_url = normalised_address(given or os.environ.get(provider.url) or provider.base_url, name)
    known = _known_name(prefix, model)
    fields = {key: value for row, facts in _MODELS if re.match(row, known) for key, value in facts.items()}
    if prefix == "ollama" and f".{urlsplit(base_url).hostname}".endswith(".ollama.com"):
        fields["native_schema"] = False  # accepted there, and not observed
    screened = prefix in ("ollama", "together", "vllm") or (
        prefix not in ("anthropic", "deepseek", "fireworks") and not _CLOSED.match(model.lower())
    )
    return ModelDescription(provider=prefix, name=model, base_url=base_url, screened=screened, **fields)


def _known_name(prefix: str, model: str) -> str:
    """The name by which ``_MODELS`` knows a model."""
    if prefix == "fireworks":
        model = model.removeprefix("accounts/fireworks/models/")
    elif prefix == "vllm":
        model = model.rpartition("/")[2]
    return f"{prefix}:{model}".lower()


def request_headers(name: str, base_url: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request, by lower-case name. They contain the key: never show them.

    Args:
        name: The model's PydanticAI name, of a provider in ``PROVIDERS``.
        base_url: Its base URL. With user and password in it no key is sent.
        own: Headers of the suite, which replace others.
    """
    provider = PROVIDERS[name.partition(":")[0]]
    headers = {"accept": "application/json", "content-type": "application/json"}
    headers["user-agent"] = f"trivium/{__version__}"
    if urlsplit(base_url).username is None:
        headers["authorization"] = f"Bearer {os.environ.get(provider.key) or NO_KEY}"
    if provider.format == "messages":
        headers["anthropic-version"] = ANTHROPIC_VERSION
    if provider.key == "OPENAI_API_KEY":
        variables = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
        headers |= {header: os.environ[each] for header, each in variables.items() if os.environ.get(each)}
    further = os.environ.get(provider.key.replace("API_KEY", "CUSTOM_HEADERS"), "")
    lines = [line.partition(":") for line in further.splitlines() if ":" in line]
    headers |= {header.strip().lower(): value.strip() for header, _, value in lines}
    return headers | {header.lower(): value for header, value in own.items()}


def check_key(name: str, *, needed: bool) -> None:
    """Check the environment variables that a model's provider needs.

    Raises:
        ModelUnavailable: If none is set though one is needed, or the key cannot be sent.
    """
    provider = PROVIDERS.get(name.partition(":")[0])
    if provider is None:
        return
    if needed and provider.needs and not any(os.environ.get(each) for each in provider.needs):
        raise ModelUnavailable(f"{provider.needs[0]} is not set, which {name} needs")
    if not http.valid_in_header(os.environ.get(provider.key, "")):
        raise ModelUnavailable(f"{provider.key} holds a line break or another character that no key can have")


def normalised_address(url: str, name: str) -> str:
    """Return a base URL as the providers' SDKs write it, which is part of the key of cached responses.

    Raises:
        ModelUnavailable: If it is no HTTP address.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
    except ValueError:  # invalid port or host name
        host, port = "", None
    if not host or parts.scheme not in ("http", "https"):
        raise ModelUnavailable(f'{name}: the base URL is "{mask(url)}", expected http://… or https://…')
    user, at, _ = parts.netloc.rpartition("@")
    place = f"{user}{at}[{host}]" if ":" in host else f"{user}{at}{host}"
    if port not in (None, {"http": 80, "https": 443}[parts.scheme]):
        place += f":{port}"
    path = quote(parts.path, safe="/%:@!$&'()*+,;=~")
    path += "/" if path and not path.endswith("/") else ""
    return parts._replace(netloc=place, path=path).geturl()


def expand_variables(text: str) -> str:
    """Replace each ``${NAME}`` in a text by the environment variable of that name.

    Raises:
        ModelUnavailable: If a variable is not set, or its value is not valid in a header.
    """
    return http.expand_variables(text, named_by="judge.servers", fail=ModelUnavailable)
