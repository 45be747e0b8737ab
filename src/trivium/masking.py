"""Masks secrets in texts that are logged, stored and shown.

:func:`mask` masks everything that may be a secret, in errors, logs and recorded contents. Outputs are scored,
so :class:`OutputMasker` masks only certain secrets: API keys by their format, values of this process's
environment, passwords in URLs, and random-looking values under names such as ``password``.
"""

import os
import re
from collections.abc import Iterable
from time import monotonic
from typing import Any

MASK = "[masked]"

_NAMES = (
    r"(?:[\w-]*[_-])?(?:api[_-]?key|apikey|access[_-]?key|account[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token"
    r"|client[_-]?secret|secret(?:[_-]?key)?|private[_-]?key|password|passwd|token|signature|sig|credential)"
)
"""Names whose value is always a secret."""

_HEADERS = r"(?:proxy-)?authorization|x-api-key|api-key|(?:set-)?cookie"

_FRESH = r"(?!\[masked]|%5B)"
"""Prevents masking a mask again, ours or, encoded in an address, another's."""

_SURE_NAMES = (
    r"(?:[\w-]*[_-])?(?:api[_-]?key|apikey|access[_-]?key|account[_-]?key|access[_-]?token|auth[_-]?token"
    r"|refresh[_-]?token|client[_-]?secret|secret(?:[_-]?key)?|private[_-]?key|password|passwd)"
)
"""Those names that never precede an ordinary value in prose or code."""

_LITERAL = r"(?=[^\s'\"]*\d)(?=[^\s'\"]*[a-z])[^\s'\",;()\[\]{}<>\\]{6,}+(?![(\[])"
"""A value that is neither a word nor a number, and contains no call or lookup."""

_NO_NAME = r"(?![a-z_]\w*+\.[a-z_]|[a-z]+\d?(?:_[a-z]+)+\b)"
"""Prevents masking code: ``settings2.api_key`` and ``s3_secret_key`` are values only in quotes."""

_START = r"(?<![\w-])(?<!sha256=)"
"""Where a key may begin: neither in a word nor in a hash, as files of wheels hold them."""

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_BASE64_OF_ASCII = r"[I-Za-f][C-HS-Xi-nyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][\w+/]"
"""Four characters, to which Base64 encodes three ASCII characters."""

_EXAMPLES = r"pass|passwd|password|pwd|secret|token|tiger|guest|\*+|x+|\.+|\$?\{[^\s@]*\}|\$\w+|%s|redacted"
"""Passwords of URLs in documentation, and what code fills in."""


def _compiled(*patterns: tuple[str, int, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, flags), replacement) for pattern, flags, replacement in patterns)


_Shapes = tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...]

_SURE_BY_TRACE: _Shapes = tuple(
    (traces, re.compile(pattern, flags), replacement)
    for traces, pattern, flags, replacement in (
        (
            ("-----begin",),
            r"-----BEGIN ([A-Z ]*PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END \1-----|\Z)",
            re.DOTALL,
            MASK,
        ),
        # After "bearer" something long with a digit, after "basic" Base64 of ASCII, which few words are.
        (
            ("bearer ", "basic "),
            (
                rf"([Bb](?<!\w.)(?:(?i:earer) +(?=[\w+/.~-]*\d)(?=[\w+/.~-]*(?:[A-Za-z0-9]{{16}}|{_UUID}))"
                rf"|asic +(?=(?:{_BASE64_OF_ASCII}){{3}})))[\w+/.=~-]+"
            ),
            0,
            rf"\1{MASK}",
        ),
        # User name and password in a URL; the password may contain an @. Examples of documentation are none.
        (
            ("://",),
            (
                r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*+://)[^\s/@:]*+:"
                rf"(?!(?:{_EXAMPLES})@)[^\s/?#'\"<>\\]+@(?!sha256:)"
            ),
            re.IGNORECASE,
            rf"\1{MASK}@",
        ),
        (("hooks.slack.com",), r"(hooks\.slack\.com/services/)[\w/-]{8,}", re.IGNORECASE, rf"\1{MASK}"),
        # API keys with a known format: of model providers, code hosts, clouds, mail and chat.
        (
            tuple(f"{start}{joint}" for start in ("sk", "pk", "rk") for joint in "-_"),
            (
                rf"[spr](?<![\w-].)(?<!sha256=.)k[-_](?:(?:proj|svcacct|admin)-(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{{12,}}"
                rf"|ant-[a-z]{{2,6}}\d\d-[\w-]{{8,}}|or-v\d-[0-9a-f]{{16,}}|lf-{_UUID}"
                r"|(?:\w{1,4}[-_])?(?=[A-Za-z]*\d)[A-Za-z0-9]{16,}[\w-]*)"
            ),
            0,
            MASK,
        ),
        # An unbroken run of letters and digits: names of packages and functions have such prefixes too.
        (
            (
                *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "gsk_", "r8_"),
                *("npm_", "pypi-age", "pplx-", "xai-", "csk-", "tvly-", "nvapi-", "lsv2_", "dckr_pat_"),
                *("gocspx-", "whsec_", "dapi"),
            ),
            (
                rf"{_START}(?:(?:gh[pousr]_|hf_|gsk_|r8_|npm_|pplx-|xai-|csk-|tvly-(?:dev-|prod-)?|whsec_)"
                r"[A-Za-z0-9]{20,}(?![\w-])|github_pat_\d\d\w{14,}|pypi-AgE[\w-]{16,}|(?:glpat-|dckr_pat_|GOCSPX-)"
                r"[\w-]{20,}|nvapi-[\w-]{40,}|lsv2_[a-z]{2}_[0-9a-f]{32}\w*|dapi[0-9a-f]{32}\b)"
            ),
            0,
            MASK,
        ),
        (
            ("aiza", "ya29.", "akia", "asia", "xox"),
            (
                rf"{_START}(?:AIza[\w-]{{30,}}|ya29\.[\w-]{{16,}}|(?:AKIA|ASIA(?=[A-Z]*\d))[A-Z0-9]{{16}}\b"
                r"|xox[abeoprs]-\d[\w-]{9,})"
            ),
            0,
            MASK,
        ),
        (
            ("sg.", "hvs.", "hvb.", "hvr.", "_v1_"),
            r"\b(?:SG\.[\w-]{16,}+\.[\w-]{16,}|hv[sbr]\.[\w-]{20,}|do[oprt]_v1_[0-9a-f]{32,})",
            0,
            MASK,
        ),
        # JSON web tokens.
        (("eyj",), r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*", 0, MASK),
    )
)
"""For each pattern, the lower-case substrings of which a match contains one (a much faster search)."""

_SURE_PATTERNS = tuple((pattern, replacement) for _, pattern, replacement in _SURE_BY_TRACE)

_SURE_ASSIGNMENTS = _compiled(
    # name=value, name: value and "name": "value", also in JSON within JSON.
    (
        rf"(?<![\w-])({_SURE_NAMES})(?<!:\d{{12}}:secret)(\\*['\"]?\s*+[:=](?!=)\s*+(?:\\*['\"]|{_NO_NAME})){_FRESH}{_LITERAL}",
        re.IGNORECASE,
        rf"\1\2{MASK}",
    ),
    (rf"(--{_SURE_NAMES}\s++){_FRESH}{_LITERAL}", re.IGNORECASE, rf"\1{MASK}"),
    (
        rf"([?&](?<!\.svg.)(?:{_NAMES}|key)=){_FRESH}(?=[^\s&'\"<>]*\d)[^\s&'\"<>;,)]{{6,}}",
        re.IGNORECASE,
        rf"\1{MASK}",
    ),
)

_PATTERNS = (
    *_SURE_PATTERNS,
    *_compiled(
        (r"\b(?:sk|pk|rk)[-_][\w-]{8,}", 0, MASK),
        (r"\b(bearer|basic)\s++(?=\S*\d|\S{20})[\w+/.=~-]{8,}", re.IGNORECASE, rf"\1 {MASK}"),
        (
            r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*+://)[^\s/@:]*+:[^\s/?#'\"<>\\]+@",
            re.IGNORECASE,
            rf"\1{MASK}@",
        ),
        # A header or cookie: everything up to the end of its value.
        (
            rf"({_HEADERS})(['\"]?\s*+[:=,]\s*+(?:b(?=['\"]))?['\"]?+){_FRESH}[^'\"\r\n]+",
            re.IGNORECASE,
            rf"\1\2{MASK}",
        ),
        # name=value and "name": "value", in URLs, JSON and dictionaries as Python prints them.
        (rf"(?<![\w-])({_NAMES}|key)(=){_FRESH}[^\s&'\"<>;,)]+", re.IGNORECASE, rf"\1\2{MASK}"),
        (
            rf"(?<![\w-])({_NAMES})(['\"]\s*+:\s*+(?:b(?=['\"]))?['\"]){_FRESH}[^'\"]+",
            re.IGNORECASE,
            rf"\1\2{MASK}",
        ),
        (rf"(?<![\w-])({_NAMES})(\\+['\"]\s*+:\s*+\\+['\"]){_FRESH}[^'\"\\]+", re.IGNORECASE, rf"\1\2{MASK}"),
        # An option of a command line.
        (rf"(--{_NAMES}\s++){_FRESH}(?!-)\S+", re.IGNORECASE, rf"\1{MASK}"),
        # name: value, where the value is not a plain word.
        (
            rf"(?<![\w-])({_NAMES})(:\s++){_FRESH}(?=[^\s'\"]*[\d_-])[^\s'\",;]{{8,}}",
            re.IGNORECASE,
            rf"\1\2{MASK}",
        ),
    ),
    *_SURE_ASSIGNMENTS,
)
# Possessive quantifiers and lookbehinds make every pattern linear on hostile texts.


_IS_SECRET = re.compile(_NAMES, re.IGNORECASE).fullmatch
_IS_SURE = re.compile(_SURE_NAMES, re.IGNORECASE).fullmatch
_IS_LITERAL = re.compile(_LITERAL, re.IGNORECASE).fullmatch

_NAME_PATTERNS = ("auth", "key", "cookie", "token", "secret", "passw", "signature", "sig", "credential")
_SHAPE_PATTERNS = tuple(trace for traces, _, _ in _SURE_BY_TRACE for trace in traces)
_TRACES = (*_NAME_PATTERNS, *_SHAPE_PATTERNS)
"""Lower-case substrings; a match of any pattern contains one of them."""

_ASSIGNED = (
    *(f"{first}{joint}key" for first in ("api", "access", "account", "private") for joint in ("", "_", "-")),
    *(f"{first}{joint}token" for first in ("access", "auth", "refresh") for joint in ("", "_", "-")),
    *("secret", "passw", "key=", "token=", "signature=", "sig=", "credential="),
)
"""Lower-case substrings; a match of a pattern for assignments in outputs contains one of them."""

_ROOTS = ("key", "secret", "passw", "token", "sig", "credential")
"""Each of ``_ASSIGNED`` contains one of these."""

_ACROSS_SPACES = ("-----begin", "bearer ", "basic ")
_SHAPES_ACROSS_SPACES = tuple(shape for shape in _SURE_BY_TRACE if set(shape[0]) & set(_ACROSS_SPACES))
_ONE_WORD_SHAPES = tuple(shape for shape in _SURE_BY_TRACE if shape not in _SHAPES_ACROSS_SPACES)
_SHORTEST_KEY = 15
"""Shortest key of a known format, and address with a password, in characters; most words are shorter."""

_SHORTEST, _SHORTEST_WORD = 8, 16
"""Shortest value of an environment variable that is masked, in characters, and shortest one of letters only;
shorter values may be ordinary words."""

_LOOKS_RANDOM = re.compile(r"(?=.*\d)(?=.*[A-Za-z])\S{16,}")
_MAY_BE_SECRET = re.compile(r".*(?:KEY|PASS|PWD|CREDENTIALS?|AUTH)", re.IGNORECASE)
"""Names of environment variables whose value is a secret if it looks like one."""

_FRESH_SECONDS = 1.0


class Masker:
    """Masks many small texts; caches the secrets of the environment for a second."""

    def __init__(self) -> None:
        self._values: list[str] = []
        self._size = -1
        self._until = 0.0

    def may_hold_a_secret(self, text: str) -> bool:
        """False when :meth:`mask` would leave the text as it is."""
        return _holds(text.lower(), _TRACES) or _holds(text, self._environment_secrets())

    def mask(self, text: str) -> str:
        """Mask a text as :func:`mask` does."""
        if not self.may_hold_a_secret(text):
            return text
        return _masked(text, self._values)

    @staticmethod
    def names_a_secret(name: str) -> bool:
        """Whether any value under this name is a secret."""
        return _IS_SECRET(name) is not None

    def _environment_secrets(self) -> list[str]:
        now = monotonic()
        if now >= self._until or len(os.environ) != self._size:
            self._values, self._size, self._until = (
                _environment_secrets(),
                len(os.environ),
                now + _FRESH_SECONDS,
            )
        return self._values


class OutputMasker(Masker):
    """Masks only certain secrets in an agent's output, and leaves prose and code unchanged.

    Examples:
        >>> OutputMasker().value({"text": "sorted(rows, key=len) with password=hunter2"})
        {'text': 'sorted(rows, key=len) with password=[masked]'}
    """

    def may_hold_a_secret(self, text: str) -> bool:
        """False when :meth:`mask` would leave the text as it is."""
        small = text.lower()
        return (
            _holds_a_shape(_long_words(text), _ONE_WORD_SHAPES)
            or _holds_a_shape(text, _SHAPES_ACROSS_SPACES)
            or (_holds(small, _ROOTS) and _holds(small, _ASSIGNED))
            or _holds(text, self._environment_secrets())
        )

    def any_may_hold_a_secret(self, value: Any) -> bool:
        """False when :meth:`value` would leave a JSON value as it is."""
        # One check of all texts together: few attempts hold a secret, and most hold hundreds of short texts.
        return self.may_hold_a_secret("\n".join(_texts(value)))

    def mask(self, text: str) -> str:
        """Mask the certain secrets in a text."""
        if not self.may_hold_a_secret(text):
            return text
        for value in self._environment_secrets():
            text = text.replace(value, MASK)
        small = text.lower()
        for traces, pattern, replacement in _SURE_BY_TRACE:
            if _holds(small, traces):
                text = pattern.sub(replacement, text)
        return _replaced(text, _SURE_ASSIGNMENTS) if _holds(small, _ASSIGNED) else text

    def value(self, value: Any) -> Any:
        """Mask the texts in a JSON value; returns the same object if there is nothing to mask."""
        return self._masked_value(value) if self.any_may_hold_a_secret(value) else value

    def _masked_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, list):
            items = [self._masked_value(item) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        if isinstance(value, dict):
            fields = {self.mask(key): self._masked_field(key, item) for key, item in value.items()}
            same = all(new is old for new, old in zip(fields.values(), value.values(), strict=False))
            return value if same and list(fields) == list(value) else fields
        return value

    def _masked_field(self, name: str, value: Any) -> Any:
        if isinstance(value, str) and _IS_SURE(name) and _IS_LITERAL(value):
            return MASK
        return self._masked_value(value)


def _texts(value: Any) -> set[str]:
    """All keys and texts of a JSON value."""
    found: set[str] = set()
    left = [value]
    for each in left:  # it grows meanwhile
        if isinstance(each, str):
            found.add(each)
        elif isinstance(each, dict):
            found.update(each)
            left.extend(each.values())
        elif isinstance(each, list | tuple):
            left.extend(each)
    return found


def _holds_a_shape(text: str, shapes: _Shapes) -> bool:
    small = text.lower()
    for traces, pattern, _ in shapes:
        for trace in traces:  # not any() with a generator, which takes twice as long
            if trace in small:
                if pattern.search(text):
                    return True
                break
    return False


def _long_words(text: str) -> str:
    return " ".join([word for word in text.split() if len(word) >= _SHORTEST_KEY])


def _holds(text: str, pieces: Iterable[str]) -> bool:
    for piece in pieces:  # noqa: SIM110 - a generator within any() takes three times as long
        if piece in text:
            return True
    return False


def _replaced(text: str, patterns: Iterable[tuple[re.Pattern[str], str]]) -> str:
    for pattern, replacement in patterns:
        text = pattern.sub(replacement, text)
    return text


def mask(text: str) -> str:
    """Replace everything that looks like a secret, and secrets of the environment, by ``[masked]``.

    Examples:
        >>> mask("GET https://api.example/v1?key=abc123&q=cats failed")
        'GET https://api.example/v1?key=[masked]&q=cats failed'
    """
    return _masked(text, _environment_secrets())


def _masked(text: str, values: list[str]) -> str:
    for value in values:
        text = text.replace(value, MASK)
    return _replaced(text, _PATTERNS)


def _environment_secrets() -> list[str]:
    """Return the values of variables such as OPENAI_API_KEY, longest first, since one may contain another."""
    values = {value for name, value in os.environ.items() if _is_secret_variable(name, value)}
    return sorted(values, key=len, reverse=True)


def _is_secret_variable(name: str, value: str) -> bool:
    if len(value) < (_SHORTEST_WORD if value.isalpha() else _SHORTEST):
        return False
    if _IS_SECRET(name):
        return True
    return _MAY_BE_SECRET.fullmatch(name) is not None and _LOOKS_RANDOM.fullmatch(value) is not None
