"""Masking: secrets taken out of texts that are logged, stored and shown."""

import re

MASK = "[masked]"

_NAMES = (
    r"(?:[\w-]*[_-])?(?:api[_-]?key|apikey|access[_-]?token|auth[_-]?token|refresh[_-]?token|client[_-]?secret"
    r"|secret(?:[_-]?key)?|private[_-]?key|password|passwd|token|signature|sig|credential)"
)
"""Names whose value is a secret, whatever it looks like."""

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        MASK,
    ),
    # An Authorization header or cookie: everything up to the end of the value.
    (
        re.compile(
            r"(?i)((?:proxy-)?authorization|x-api-key|api-key|(?:set-)?cookie)"
            r"(['\"]?\s*[:=,]\s*b?['\"]?)(?!\[masked])[^'\"\r\n]+"
        ),
        rf"\1\2{MASK}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w+/.=~-]{8,}"), rf"\1 {MASK}"),
    # name=value and "name": "value", in URLs, JSON and dictionaries as Python prints them.
    (
        re.compile(rf"(?i)(?<![\w-])({_NAMES}|key)(=)(?!\[masked])[^\s&'\"<>;,)]+"),
        rf"\1\2{MASK}",
    ),
    (
        re.compile(rf"(?i)(?<![\w-])({_NAMES})(['\"]\s*:\s*b?['\"])(?!\[masked])[^'\"]+"),
        rf"\1\2{MASK}",
    ),
    (
        re.compile(rf"(?i)(?<![\w-])({_NAMES})(:\s+)(?!\[masked])(?=[^\s'\"]*[\d_-])[^\s'\",;]{{8,}}"),
        rf"\1\2{MASK}",
    ),
    # A name and a password before the host of a URL.
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s/@]+@"), rf"\1{MASK}@"),
    # Keys that their shape gives away.
    (re.compile(r"\b(?:sk|pk|rk)[-_][\w-]{8,}"), MASK),  # OpenAI, Anthropic, Stripe
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|gsk_|r8_|npm_|pypi-)[\w-]{16,}"), MASK),
    (re.compile(r"\bpplx-\w{16,}|\bxai-\w{16,}"), MASK),
    (re.compile(r"\bAIza[\w-]{30,}|\bya29\.[\w-]{16,}"), MASK),  # Google
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MASK),  # AWS
    (re.compile(r"\bxox[abeoprs]-[\w-]{10,}"), MASK),  # Slack
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), MASK),  # JSON web tokens
)


def mask(text: str) -> str:
    """The text with what looks like a secret replaced by ``[masked]``.

    Examples:
        >>> mask("GET https://api.example/v1?key=abc123&q=cats failed")
        'GET https://api.example/v1?key=[masked]&q=cats failed'
    """
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
