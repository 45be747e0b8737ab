"""What a generator yields, together: texts are joined, other items make a list, and both are bounded."""

from typing import Any

from trivium.jsonable import MOST_CHARS, plain_text

MOST_ITEMS = 1000


class Yielded:
    """The items of a generator, as far as they are recorded."""

    __slots__ = ("_chars", "_count", "_items", "_texts")

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._count = 0
        self._chars = 0
        self._texts = True

    def add(self, item: Any) -> None:
        """One more."""
        self._count += 1
        if issubclass(type(item), str):
            item = plain_text(item)
            self._chars += len(item)
        else:
            self._texts = False
        if self._chars <= MOST_CHARS and (self._texts or self._count <= MOST_ITEMS):
            self._items.append(item)

    def together(self) -> Any:
        """All of them; of very many the first."""
        if self._texts:
            return "".join(self._items) if self._items else None
        left_out = self._count - len(self._items)
        return [*self._items, f"… {left_out:,} more"] if left_out else self._items
