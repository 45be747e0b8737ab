"""Whether an output holds an expected answer: an equal text, whole words, a number, or a JSON value."""

import json
import math
import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

DASHES = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2212\ufe63", "-") | dict.fromkeys("\u2012\u2014\u2015", "\u2013")
)
"""Hyphens and minus signs as ``-``, and dashes as one dash (–)."""

QUOTES = str.maketrans(dict.fromkeys("‘’‚‛′´`", "'") | dict.fromkeys("“”„‟″«»", '"'))
"""Typographic quotes as those of a keyboard."""

GROUPED = re.compile(r"(?<=\d)['\u00a0\u2007\u2009\u202f](?=\d{3}(?!\d))")
"""A separator of thousands that stands nowhere else in a number."""

NUMBER = re.compile(
    r"(?<![\w.,])(?:(?P<sign>[-+])[$€£¥₹]?(?=[\d.]))?"
    r"(?P<digits>\d{1,3}(?:[,.']\d{3})+(?!\d)|\d+|(?=\.\d))"
    r"(?P<rest>[.,]\d+(?![.,]?\d))?(?P<power>[eE][-+]?\d{1,3}(?!\w))?(?:/(?P<divisor>\d+))?"
)
"""A number in a text: sign, digits with or without separators, decimals, exponent, divisor of a fraction."""

COMPOUND = re.compile(r"[^\W\d_]-$")
"""What precedes the end of a compound word: e-mail, COVID-19."""

SIGN = re.compile(r"(?:^|\W)[-\u2013]$")
DECIMAL = re.compile(r"\d[.,/']$|(?:^|\W)\.$")
"""What precedes the digits of a negative number, and digits that are not the first of a number."""

UNSPACED = re.compile(
    r"[\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0ec0-\u0ec6\u1000-\u102a\u1780-\u17b3"
    r"\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
    r"[\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u17b4-\u17d3\u3099\u309a]*"
)
"""A letter with its marks, in scripts without spaces between words: Thai, Lao, Burmese, Khmer, and those of
Chinese and Japanese."""

LONGEST_NUMBER = 400
"""Digits of a number that are read at most: a double has 309 before its point."""

FENCED = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)


def fold(text: str) -> str:
    """Write the same characters alike: NFC, full and half width, typographic quotes, dashes, minus signs.

    Letters, digits and spaces stay as they are (``²`` is no 2). Words that differ in case stay different.
    """
    return _folded(text).replace("\u2013", "-")


def _folded(text: str) -> str:
    """As :func:`fold`, with dashes apart from hyphens."""
    if text.isascii():
        return text.translate(QUOTES)
    narrow = "".join(_one_width(each) if each > "\u2fff" else each for each in text)
    return unicodedata.normalize("NFC", narrow).translate(QUOTES).translate(DASHES)


def _one_width(character: str) -> str:
    wide = unicodedata.decomposition(character).startswith(("<wide>", "<narrow>"))
    return unicodedata.normalize("NFKC", character) if wide else character


def equals(text: str, wanted: str) -> bool:
    """Whether two texts are equal but for white space around them, or are equal JSON objects or arrays."""
    return fold(text).strip() == fold(wanted).strip() or _holds_value(text, wanted)


def contains(text: str, wanted: str, *, ignore_case: bool = True) -> bool:
    """Whether a text contains another as whole words and whole numbers; white space is normalised.

    ``I know`` does not contain ``no``, ``e-mail`` not ``mail``, ``C++`` not ``C``. ``42.5``, ``42,000``,
    ``-42`` and ``1/42`` do not contain ``42``, while ``$42``, ``42 %`` and ``(42)`` do. In scripts without
    capital letters (Chinese, Thai, Arabic, …), where words are not always separated, any position matches. A
    JSON object or array is compared as a value, if the text is JSON or has it in a fenced block.
    """
    if _holds_value(text, wanted):
        return True
    marked, searched = _searchable(text, ignore_case)
    _, needle = _searchable(wanted, ignore_case)
    if not needle:
        return not searched
    at = searched.find(needle)
    while at >= 0:
        if _starts(marked, at) and _ends(marked, at + len(needle)):
            return True
        at = searched.find(needle, at + 1)
    return False


def _searchable(text: str, ignore_case: bool) -> tuple[str, str]:
    """A text with one space for white space: with dashes apart from hyphens, and with both alike."""
    grouped = GROUPED.sub("'", _folded(text))
    marked = " ".join((grouped.casefold() if ignore_case else grouped).split())
    return marked, marked.replace("\u2013", "-")


def _starts(text: str, at: int) -> bool:
    """Whether a word or number may begin at a position."""
    before, first = text[max(0, at - 3) : at], text[at]
    if before and _one_word(before[-1], first):
        return False
    if first in "-+" and text[at + 1 : at + 2].isdigit():
        return not (before and _in_word(before[-1]))
    if _in_word(first) and COMPOUND.search(before):
        return False
    if not first.isdigit():
        return True
    if before and unicodedata.category(before[-1]) == "Sc":
        return not SIGN.search(before[:-1])
    return not (SIGN.search(before) or DECIMAL.search(before))


def _ends(text: str, end: int) -> bool:
    """Whether a word or number may end before a position."""
    last, after = text[end - 1], text[end : end + 4]
    if not after:
        return True
    if _one_word(last, after[0]):
        return False
    if last.isdigit():
        return not re.match(r"[.,/]\d|'\d{3}", after)
    return not (_in_word(last) and re.match(r"[+#]+(?!\w)", after))


def _one_word(left: str, right: str) -> bool:
    """Whether two neighbouring characters belong to one word."""
    return _in_word(left) and _in_word(right)


def _in_word(character: str) -> bool:
    return character.isdigit() or character.lower() != character.upper()


def spaced(text: str) -> str:
    """Put spaces around each ideograph, kana and letter of scripts that have none between words."""
    return text if text.isascii() else UNSPACED.sub(r" \g<0> ", text)


def word_count(text: str) -> int:
    """How many words a reader would count: two ideographs or kana, or five letters of Thai, are one."""
    if text.isascii():
        return len(text.split())
    unspaced: list[str] = UNSPACED.findall(text)
    letters = len([each for each in unspaced if each < "\u3000"])
    others = len(UNSPACED.sub(" ", text).split())
    return others + math.ceil(letters / 5) + math.ceil((len(unspaced) - letters) / 2)


def holds_number(text: str, wanted: str, tolerance: float) -> bool | None:
    """Whether a number in a text differs from an expected one by at most ``tolerance``.

    Args:
        text: The text; units, currencies and words beside a number are left alone.
        wanted: A text with one number.
        tolerance: In the unit of the number, 0 or more.

    Returns:
        None if ``wanted`` has no number or several.
    """
    expected = list(_numbers(wanted))
    if len(expected) != 1:
        return None
    return any(abs(found - expected[0]) <= Fraction(tolerance) for found in _numbers(text))


def _numbers(text: str) -> Iterator[Fraction]:
    """Find the numbers in a text: 42, -42, 42.5, 42,5, 42,000, 42'000.5, 4.2e1, 1/2.

    A comma, point or apostrophe before three digits separates thousands, except for a single point (1.234)
    and in numbers that begin with 0.
    """
    for found in NUMBER.finditer(GROUPED.sub("'", fold(text))):
        digits, rest = found["digits"], found["rest"] or ""
        separators = re.sub(r"\d", "", digits)
        if (separators == "." or digits.startswith("0")) and not rest:
            whole = digits.replace(",", ".").replace("'", "")
        elif len(set(separators)) > 1:
            continue  # 1.234,567.890: neither convention
        else:
            whole = re.sub(r"\D", "", digits) + rest.replace(",", ".")
        divisor = found["divisor"] or "1"
        if len(whole) <= LONGEST_NUMBER and len(divisor) <= LONGEST_NUMBER and int(divisor):
            sign, power = found["sign"] or "", found["power"] or ""
            yield Fraction(Decimal(f"{sign}0{whole}{power}")) / int(divisor)


def _holds_value(text: str, wanted: str) -> bool:
    """Whether a text is, or has in a fenced block, the JSON object or array that another one is."""
    if not wanted.lstrip().startswith(("{", "[")):
        return False
    expected = _json(wanted)
    if expected is None:
        return False
    candidates = (text, *(block[1] for block in FENCED.finditer(text)))
    return any((found := _json(each)) is not None and _same(found, expected) for each in candidates)


def _json(text: str) -> Any:
    """The object or array that a text is, or None."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def _same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: 1 and 1.0 are, 1 and true are not; keys may be in any order."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
