"""Keeps request templates in files, so that a command does not import PydanticAI to make them again.

Importing it takes longer than judging twenty outputs. A file holds what PydanticAI made for one model, and is
used only while everything that it may depend on is the same. It holds no secret: of the key and of headers of
the suite only the place is stored, and a request with other headers than those is not stored at all.
"""

import logging
import os
import platform
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from trivium.masking import mask
from trivium.metrics.judge.client.model_factory import (
    KEYS,
    ModelDescription,
    check_key,
    describe,
    expand_variables,
    open_model,
)
from trivium.metrics.judge.client.request_template import RequestTemplate
from trivium.suites.settings import ServerSettings

log = logging.getLogger(__name__)

FOLDER_VARIABLE = "TRIVIUM_CACHE"
"""Environment variable that names the folder; if it is empty, nothing is stored."""

MAX_FILES, MAX_TEMPLATES = 64, 64
"""Files in the folder, and templates in each; the oldest go first."""

SDKS = {"openai": "openai", "openai-chat": "openai", "anthropic": "anthropic"}
"""SDKs of the providers whose templates are stored; the names of their environment variables begin so."""

PACKAGES = ("pydantic-ai-slim", "pydantic", "httpx2")
"""Packages that make the requests, beside the SDK."""

MODULES = ("pydantic_ai_client.py", "model_factory.py", "request_template.py", "template_capture.py")
"""Modules of this package that make them."""

PUBLIC_HEADERS = frozenset({"accept", "content-type", "user-agent", "anthropic-version"})
PUBLIC_PREFIX = "x-stainless-"
"""Headers that SDKs send with values that are the same for everybody."""

KEY_HEADERS = frozenset({"authorization", "x-api-key"})
"""Headers with the provider's key."""

NO_KEY = "api-key-not-set"
"""Key that is sent to a private server if none is set."""


class StoredHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """A header of a template without secrets.

    Attributes:
        name: Its name.
        source: Where its value comes from: the file, the provider's key, or the suite.
        text: The value, or what comes before the key.
    """

    name: str
    source: Literal["file", "key", "suite"]
    text: str = ""


class StoredTemplate(msgspec.Struct, frozen=True):
    """A template without secrets; ``path`` is the end of its address, after the base URL."""

    path: str
    headers: tuple[StoredHeader, ...]
    pieces: tuple[str, ...]
    places: tuple[int, ...]


class _Stored(msgspec.Struct):
    """What a file holds. The description has the end of the base URL, after what is configured."""

    description: ModelDescription
    templates: dict[str, StoredTemplate]


_decode = msgspec.json.Decoder(_Stored).decode


class TemplateCache:
    """The file of one model.

    Args:
        file: Its path; the name is a digest of all that the templates depend on.
        base_url: The base URL as it is configured; empty for the provider's own.
        key: The provider's key.
    """

    def __init__(self, file: Path, *, base_url: str, key: str) -> None:
        self._file = file
        self._base_url = base_url
        self._key = key
        self._stored = self._load()

    @classmethod
    def open(cls, name: str, server: ServerSettings | None = None) -> "TemplateCache | None":
        """Return the file of a model, or None if its templates are not stored.

        They are not for other providers than OpenAI and Anthropic, if a variable of the environment sets more
        than address and key, and if the address holds a password or a query.

        Args:
            name: The model's PydanticAI name.
            server: Its server, if not the one that the environment names.

        Raises:
            ModelUnavailable: If its key or the variables of its address are missing or wrong.
        """
        server = server or ServerSettings()
        provider = name.partition(":")[0]
        sdk, folder = SDKS.get(provider), cache_folder()
        if sdk is None or folder is None:
            return None
        prefix = f"{sdk.upper()}_"
        key_name, url_name = f"{prefix}API_KEY", f"{prefix}BASE_URL"
        if any(each.startswith(prefix) and each not in (key_name, url_name) for each in os.environ):
            return None
        try:
            versions = [version(package) for package in (*PACKAGES, sdk)]
        except PackageNotFoundError:
            return None
        url = os.environ.get(url_name) if server.base_url is None else expand_variables(server.base_url)
        check_key(KEYS[provider], name, needed=server.base_url is None)
        if not _is_public(url or ""):
            return None
        key = os.environ.get(key_name)
        depends_on = [
            name,
            url,
            None if key is None else bool(key),
            sorted(header.lower() for header in server.headers),
            versions,
            [platform.python_implementation(), platform.python_version(), platform.system()],
            [platform.release(), platform.machine()],
            _code_digest(),
        ]
        return cls(folder / f"{_digest(depends_on)}.json", base_url=url or "", key=key or NO_KEY)

    @property
    def description(self) -> ModelDescription | None:
        """The description of the model, or None if nothing is stored."""
        if self._stored is None:
            return None
        stored = self._stored.description
        return msgspec.structs.replace(stored, base_url=self._base_url + stored.base_url)

    def get(self, settings: tuple[Any, ...], headers: Mapping[str, str]) -> RequestTemplate | None:
        """Return a stored template, or None.

        Args:
            settings: What distinguishes it from the model's other templates.
            headers: The suite's headers.
        """
        if self._stored is None or (stored := self._stored.templates.get(_digest(settings))) is None:
            return None
        description = self.description
        assert description is not None  # noqa: S101 - it is stored with the templates
        suite = {name.lower(): value for name, value in headers.items()}
        return RequestTemplate(
            description.base_url + stored.path,
            {each.name: _value(each, self._key, suite) for each in stored.headers},
            tuple(piece.encode() for piece in stored.pieces),
            stored.places,
        )

    def put(
        self,
        settings: tuple[Any, ...],
        template: RequestTemplate,
        description: ModelDescription,
        headers: Mapping[str, str],
    ) -> None:
        """Store a template, unless its address or a header may hold a secret.

        Args:
            settings: What distinguishes it from the model's other templates.
            template: The template.
            description: The description of the model.
            headers: The suite's headers.
        """
        url, base_url = template.url, description.base_url
        suite = {name.lower(): value for name, value in headers.items()}
        stored_headers = [
            _without_secret(name, value, self._key, suite) for name, value in template.headers.items()
        ]
        known = [each for each in stored_headers if each is not None]
        if (
            len(known) < len(stored_headers)
            or not url.startswith(base_url)
            or not base_url.startswith(self._base_url)
        ):
            return
        if self._stored is None:
            end = base_url.removeprefix(self._base_url)
            self._stored = _Stored(msgspec.structs.replace(description, base_url=end), {})
        templates = self._stored.templates
        templates[_digest(settings)] = StoredTemplate(
            url.removeprefix(base_url),
            tuple(known),
            tuple(piece.decode() for piece in template.pieces),
            template.places,
        )
        while len(templates) > MAX_TEMPLATES:
            del templates[next(iter(templates))]
        content = msgspec.json.encode(self._stored)
        secrets = [*headers.values(), *([] if self._key == NO_KEY else [self._key])]
        if not any(_json_inner(secret) in content for secret in secrets if secret):
            _save(self._file, content)

    def _load(self) -> _Stored | None:
        try:
            return _decode(self._file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s cannot be read, so that PydanticAI is imported: %s", self._file, error)
            return None


def cache_folder() -> Path | None:
    """The folder of the files: ``TRIVIUM_CACHE``, or ``trivium`` in the user's cache folder.

    Returns:
        None if it is turned off, or if the user has no home.
    """
    if (named := os.environ.get(FOLDER_VARIABLE)) is not None:
        return Path(named) / "requests" if named else None
    variable = "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"
    try:
        folder = Path(os.environ.get(variable) or Path.home() / ".cache")
    except RuntimeError:
        return None
    return folder / "trivium" / "requests"


def model_address(name: str, server: ServerSettings | None = None) -> str:
    """Return the base URL of a model, with secrets masked.

    Raises:
        ModelUnavailable: If it cannot be used.
    """
    stored = TemplateCache.open(name, server)
    description = stored and stored.description
    return mask((description or describe(open_model(name, server=server), name)).base_url)


def _is_public(url: str) -> bool:
    """Whether the parts of an address that may hold secrets, except its path, are empty."""
    try:
        parts = urlsplit(url)
    except ValueError:  # no address
        return False
    return not parts.query and parts.username is None


def _digest(value: Any) -> str:
    return blake2b(msgspec.json.encode(value), digest_size=16).hexdigest()


@cache
def _code_digest() -> str:
    here = Path(__file__).parent
    return _digest([(here / module).read_bytes() for module in MODULES])


def _without_secret(name: str, value: str, key: str, suite: Mapping[str, str]) -> StoredHeader | None:
    """What is stored of a header; None if its value may be a secret from elsewhere."""
    lower = name.lower()
    if lower in suite:
        return StoredHeader(name, "suite") if value == suite[lower] else None
    if lower in KEY_HEADERS:
        before = value.removesuffix(key)
        return (
            StoredHeader(name, "key", before) if before in {"", "Bearer "} and value.endswith(key) else None
        )
    if lower in PUBLIC_HEADERS or lower.startswith(PUBLIC_PREFIX):
        return StoredHeader(name, "file", value)
    return None


def _value(header: StoredHeader, key: str, suite: Mapping[str, str]) -> str:
    """The value of a stored header."""
    if header.source == "suite":
        return suite[header.name.lower()]
    return header.text + (key if header.source == "key" else "")


def _json_inner(text: str) -> bytes:
    return msgspec.json.encode(text)[1:-1]


def _save(file: Path, content: bytes) -> None:
    """Replace a file, readable by its owner alone, and delete the oldest ones beyond ``MAX_FILES``."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=file.parent, prefix="new-", delete=False) as new:
            new.write(content)
        Path(new.name).replace(file)
        files = sorted(file.parent.iterdir(), key=lambda each: each.stat().st_mtime)
        for old in files[:-MAX_FILES]:
            old.unlink(missing_ok=True)
    except OSError as error:  # a read-only home, a full disk, another process that deletes the same
        log.debug("%s is not written: %s", file, error)
