"""What was worked out for texts seen before, so that a reference is not taken apart for every output."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class Seen(Generic[V]):
    """A memory of bounded size that forgets what was not used for longest.

    It is bounded by the total size of what it keeps, so that long texts cannot fill the memory, and
    keeps nothing that is larger than an eighth of its room, so that one text cannot push out all others.

    Args:
        room: Total size it may hold, in the unit of the sizes given to :meth:`keep`.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._taken = 0
        self._kept: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> V | None:
        """What was kept under a key, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def keep(self, key: Hashable, value: V, size: int) -> None:
        """Keep a value of a size, forgetting older ones where there is no room."""
        if size > self._room // 8:
            return
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = (value, size)
            self._taken += size
            while self._taken > self._room:
                _, (_, freed) = self._kept.popitem(last=False)
                self._taken -= freed

    @property
    def taken(self) -> int:
        """Total size of what is kept."""
        return self._taken

    def __len__(self) -> int:
        return len(self._kept)
