"""The order of groups, which decides what a seed draws (spec: metrics, B.1)."""

import re
from collections.abc import Hashable, Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

_WHOLE = re.compile(r"[+-]?[0-9]{1,300}", re.ASCII)


class Groups(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Which group each row belongs to.

    Attributes:
        ids: The groups' ids in order: by number when all are whole numbers, else by code point.
        codes: Place in ``ids`` of the group of each row, shape (n,).
    """

    ids: tuple[str, ...]
    codes: npt.NDArray[np.int64]

    @classmethod
    def of(cls, ids: Sequence[Hashable]) -> "Groups":
        """Order the groups that occur in ``ids``, one id a row; an id is known by its text."""
        texts = {id_: str(id_) for id_ in dict.fromkeys(ids)}
        ordered = ordered_ids(texts.values())
        place = {text: code for code, text in enumerate(ordered)}
        code_of = {id_: place[text] for id_, text in texts.items()}
        return cls(ids=tuple(ordered), codes=np.fromiter((code_of[id_] for id_ in ids), np.int64, len(ids)))

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.ids)


def ordered_ids(ids: Iterable[str]) -> list[str]:
    """The distinct ids, by number when all are whole numbers, else by code point."""
    distinct = set(ids)
    if all(_WHOLE.fullmatch(id_) for id_ in distinct):
        return sorted(distinct, key=lambda id_: (int(id_), id_))
    return sorted(distinct)
