"""Masking: secrets taken out of texts that are logged, stored and shown."""

import os
import re
from time import monotonic

MASK = "[masked]"

_NAMES = (
    r"(?:[\w-]*[_-])?(?:api[_-]?key|apikey|access[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token"
    r"|client[_-]?secret|secret(?:[_-]?key)?|private[_-]?key|password|passwd|token|signature|sig|credential)"
)
"""Names whose value is a secret, whatever it looks like."""

_HEADERS = r"(?:proxy-)?authorization|x-api-key|api-key|(?:set-)?cookie"

_FRESH = r"(?!\[masked])"
"""What is masked already stays as it is."""

_PATTERNS = tuple(
    (re.compile(pattern, flags), replacement)
    for pattern, flags, replacement in (
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL, MASK),
        # A header or cookie: everything up to the end of its value.
        (
            rf"({_HEADERS})(['\"]?\s*+[:=,]\s*+(?:b(?=['\"]))?['\"]?+){_FRESH}[^'\"\r\n]+",
            re.IGNORECASE,
            rf"\1\2{MASK}",
        ),
        (r"\b(bearer|basic)\s++(?=\S*\d|\S{20})[\w+/.=~-]{8,}", re.IGNORECASE, rf"\1 {MASK}"),
        # name=value and "name": "value", in URLs, JSON and dictionaries as Python prints them.
        (rf"(?<![\w-])({_NAMES}|key)(=){_FRESH}[^\s&'\"<>;,)]+", re.IGNORECASE, rf"\1\2{MASK}"),
        (
            rf"(?<![\w-])({_NAMES})(['\"]\s*+:\s*+(?:b(?=['\"]))?['\"]){_FRESH}[^'\"]+",
            re.IGNORECASE,
            rf"\1\2{MASK}",
        ),
        # name: value, where the value is no plain word.
        (
            rf"(?<![\w-])({_NAMES})(:\s++){_FRESH}(?=[^\s'\"]*[\d_-])[^\s'\",;]{{8,}}",
            re.IGNORECASE,
            rf"\1\2{MASK}",
        ),
        # A name and a password before the host of a URL.
        (r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*+://)[^\s/@:]*+:[^\s/@]+@", re.IGNORECASE, rf"\1{MASK}@"),
        # Keys that their shape gives away: of model providers, code hosts, clouds, Slack; JSON web tokens.
        (r"\b(?:sk|pk|rk)[-_][\w-]{8,}", 0, MASK),
        (r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|gsk_|r8_|npm_|pypi-|pplx-|xai-)[\w-]{16,}", 0, MASK),
        (
            r"\b(?:AIza[\w-]{30,}|ya29\.[\w-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|xox[abeoprs]-[\w-]{10,})",
            0,
            MASK,
        ),
        (r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*", 0, MASK),
    )
)
# Possessive quantifiers and lookbehinds keep every pattern linear on hostile texts.


_IS_SECRET = re.compile(_NAMES, re.IGNORECASE).fullmatch

_TRACES = (
    *("-----begin", "auth", "key", "cookie", "bearer", "basic"),
    *("token", "secret", "passw", "signature", "sig", "credential", "://"),
    *(f"{start}{joint}" for start in ("sk", "pk", "rk") for joint in "-_"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "gsk_", "r8_", "npm_", "pypi-"),
    *("pplx-", "xai-", "aiza", "ya29.", "akia", "asia", "xox", "eyj"),
)
"""In small letters: every pattern needs one of these, and they are looked for much faster than patterns."""

_SHORTEST = 8
"""Characters of a value in the environment that is masked wherever it stands; shorter ones are words."""

_FRESH_SECONDS = 1.0


class Masker:
    """Masks many small texts; what the environment calls a secret is looked up now and then only."""

    def __init__(self) -> None:
        self._values: list[str] = []
        self._size = -1
        self._until = 0.0

    def may_hold_a_secret(self, text: str) -> bool:
        """False when :meth:`mask` would leave the text as it is."""
        small = text.lower()
        for trace in _TRACES:
            if trace in small:
                return True
        return any(value in text for value in self._of_environment())

    def mask(self, text: str) -> str:
        """As :func:`mask`."""
        if not self.may_hold_a_secret(text):
            return text
        return _masked(text, self._values)

    @staticmethod
    def names_a_secret(name: str) -> bool:
        """Whether what goes by a name is a secret, whatever it looks like."""
        return _IS_SECRET(name) is not None

    def _of_environment(self) -> list[str]:
        now = monotonic()
        if now >= self._until or len(os.environ) != self._size:
            self._values, self._size, self._until = _of_environment(), len(os.environ), now + _FRESH_SECONDS
        return self._values


def mask(text: str) -> str:
    """The text with what looks like a secret replaced by ``[masked]``, and what the environment calls one.

    Examples:
        >>> mask("GET https://api.example/v1?key=abc123&q=cats failed")
        'GET https://api.example/v1?key=[masked]&q=cats failed'
    """
    return _masked(text, _of_environment())


def _masked(text: str, values: list[str]) -> str:
    for value in values:
        text = text.replace(value, MASK)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _of_environment() -> list[str]:
    """Values of variables such as OPENAI_API_KEY, longest first, since one may be a part of another."""
    values = {value for name, value in os.environ.items() if len(value) >= _SHORTEST and _IS_SECRET(name)}
    return sorted(values, key=len, reverse=True)
