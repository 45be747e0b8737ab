"""Marks the words that differ between two texts.

The words are aligned by the greedy algorithm of E. W. Myers, "An O(ND) difference algorithm and its
variations" (Algorithmica 1, 1986), which finds a shortest sequence of deletions and insertions. Its work is
bounded: texts that differ in too many words are marked as wholly different, except for a common beginning
and end.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

import regex

from trivium.reports.document.blocks import Kind, Piece, ShownText

T = TypeVar("T", bound=Hashable)

MAX_STEPS = 30_000
"""Most comparisons of two items in one alignment: enough for about 240 differences, in some 10 ms."""

SCRAP = 1 / 3
"""Words that two differences have between them are marked too if they are shorter than this share of each."""

_TOKENS = regex.compile(
    r"\s+"
    # Scripts without spaces between words are compared character by character.
    r"|(?:(?![\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])[\w\p{M}])+"
    r"|\X"
)


def word_diff(base: str, head: str, *, max_steps: int = MAX_STEPS) -> list[Piece]:
    """Align two texts word by word.

    White space, punctuation, and characters of scripts without spaces are words of their own. A character
    is never separated from its accents, nor an emoji from its modifiers.

    Args:
        base: The text before.
        head: The text after.
        max_steps: Most comparisons of two words.

    Returns:
        Non-empty pieces. Those that are not ``inserted`` join to base, those that are not ``deleted`` to
        head. A deletion comes before the insertion that replaces it. Texts that share only punctuation are
        wholly different.
    """
    if base == head:
        return [Piece("same", base)] if base else []
    left, right = _TOKENS.findall(base), _TOKENS.findall(head)
    edits: list[_Edit] = []
    for kind, words in sequence_diff(left, right, max_steps=max_steps):
        if kind == "same" or not edits:
            edits.append({"same": "", "deleted": "", "inserted": ""})
        edits[-1][kind] += "".join(words)
    kept = _without_scraps(edits)
    if not any(map(str.isalnum, "".join(edit["same"] for edit in kept))):
        return [piece for piece in (Piece("deleted", base), Piece("inserted", head)) if piece.text]
    return [Piece(kind, text) for edit in kept for kind, text in edit.items() if text]


def sequence_diff(
    base: Sequence[T], head: Sequence[T], *, max_steps: int = MAX_STEPS
) -> Iterator[tuple[Kind, Sequence[T]]]:
    """Align two sequences and yield their runs of equal, deleted and inserted items, none of them empty.

    Args:
        base: The items before.
        head: The items after.
        max_steps: Most comparisons of two items.
    """
    shorter = min(len(base), len(head))
    start = next((at for at in range(shorter) if base[at] != head[at]), shorter)
    end = next((at for at in range(shorter - start) if base[-1 - at] != head[-1 - at]), shorter - start)
    ours, theirs = base[start : len(base) - end], head[start : len(head) - end]
    if start:
        yield "same", base[:start]
    at_base = at_head = 0
    for to_base, to_head, length in (*_equal_runs(ours, theirs, max_steps), (len(ours), len(theirs), 0)):
        if at_base < to_base:
            yield "deleted", ours[at_base:to_base]
        if at_head < to_head:
            yield "inserted", theirs[at_head:to_head]
        at_base, at_head = to_base + length, to_head + length
        if length:
            yield "same", ours[to_base:at_base]
    if end:
        yield "same", base[len(base) - end :]


def _equal_runs(base: Sequence[T], head: Sequence[T], max_steps: int) -> tuple[tuple[int, int, int], ...]:
    """The runs of a longest common subsequence; none if finding it takes too many steps.

    Returns:
        Index in base, index in head and length of each.
    """
    # By diagonal (index in base minus index in head): the furthest index in base that was reached, and the
    # runs on the way there.
    furthest: dict[int, tuple[int, tuple[tuple[int, int, int], ...]]] = {1: (0, ())}
    steps = 0
    for differences in range(len(base) + len(head) + 1):
        steps += differences + 1
        for diagonal in range(-differences, differences + 1, 2):
            x, runs = furthest.get(diagonal + 1, _NOWHERE)  # an insertion
            before, runs_before = furthest.get(diagonal - 1, _NOWHERE)
            if before >= x:  # a deletion leads further
                x, runs = before + 1, runs_before
            start, y = x, x - diagonal
            while x < len(base) and y < len(head) and base[x] == head[y]:
                x, y = x + 1, y + 1
            if start < x:
                runs = (*runs, (start, start - diagonal, x - start))
            if x >= len(base) and y >= len(head):
                return runs
            furthest[diagonal] = x, runs
            steps += x - start
            if steps > max_steps:
                return ()
    return ()


_NOWHERE: tuple[int, tuple[()]] = (-1, ())

_Edit = dict[Kind, str]
"""Equal words and the difference after them."""


def _without_scraps(edits: Iterable[_Edit]) -> list[_Edit]:
    """Join differences with so little between them that it is equal by chance, such as an article."""
    kept: list[_Edit] = []
    for edit in edits:
        kept.append(edit)
        while len(kept) > 1 and _is_scrap(kept[-1], kept[-2]):
            last, before = kept.pop(), kept[-1]
            before["deleted"] += last["same"] + last["deleted"]
            before["inserted"] += last["same"] + last["inserted"]
    return kept


def _is_scrap(edit: _Edit, before: _Edit) -> bool:
    """Whether the equal words between two differences are too short to be kept."""
    common, changed = sum(map(len, edit["same"].split())), _changed(edit)
    return bool(changed) and common < SCRAP * min(_changed(before), changed)


def _changed(edit: _Edit) -> int:
    """Characters of the longer side of a difference."""
    return max(len(edit["deleted"]), len(edit["inserted"]))


NEAR_CHARS = 80
"""Characters of equal text that stay at each side of a difference when a text is shortened."""


def shortened(pieces: Sequence[Piece], at_most: int, *, more: int = 0) -> ShownText:
    """Shorten a text: first what is far from every difference, then its end.

    Args:
        pieces: The text.
        at_most: Largest number of characters.
        more: Characters after the last piece, which are left out.
    """
    total = sum(len(piece.text) for piece in pieces)
    if total <= at_most:
        return ShownText(pieces=tuple(pieces), left_out=more)
    kept: list[Piece | None] = []
    room = at_most
    for piece in _near_differences(pieces):
        if piece is None:
            kept.append(None)
        elif room > 0:
            kept.append(Piece(piece.kind, piece.text[:room]))
            room -= len(piece.text)
    shown = sum(len(piece.text) for piece in kept if piece is not None)
    while kept and kept[-1] is None:
        kept.pop()
    return ShownText(pieces=tuple(kept), left_out=total - shown + more)


def _near_differences(pieces: Sequence[Piece]) -> Iterator[Piece | None]:
    """Pass the pieces on, and None for equal text that is far from every difference."""
    for at, piece in enumerate(pieces):
        first, last = at == 0, at == len(pieces) - 1
        before, after = (0 if first else NEAR_CHARS), (0 if last else NEAR_CHARS)
        text = piece.text
        if piece.kind != "same" or (first and last) or len(text) <= before + after:
            yield piece
            continue
        if before:
            yield Piece("same", text[:before])
        yield None
        if after:
            yield Piece("same", text[-after:])
