"""Ledger: what a run spent, by model and by what was judged."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

Entry = tuple[str, tuple[str, ...]]
"""A model as the suite names it, and the dimensions that its requests judged together."""


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What some requests took.

    Attributes:
        requests: That were sent, those included that came to nothing.
        answered: Requests that brought a reply, usable or not.
        from_cache: Replies that had been kept and were not asked for.
        input_tokens: Read, over the replies that were asked for.
        output_tokens: Written, likewise.
        cost_usd: Of the replies whose price is known.
        unpriced: Replies whose price is not known.
        unknown: Requests of which nobody can say what is billed (a timeout, a lost connection, a reply that
            does not say what it took), and those in flight, which a killed process leaves so.
        unknown_usd: The most that those may cost.
        unknown_tokens: The most that those may have used.
    """

    requests: int = 0
    answered: int = 0
    from_cache: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    unknown: int = 0
    unknown_usd: float = 0.0
    unknown_tokens: int = 0

    def __add__(self, other: "Spending") -> "Spending":
        fields = self.__struct_fields__
        return Spending(**{name: getattr(self, name) + getattr(other, name) for name in fields})

    def __sub__(self, other: "Spending") -> "Spending":
        fields = self.__struct_fields__
        return Spending(**{name: getattr(self, name) - getattr(other, name) for name in fields})

    @property
    def most_usd(self) -> float:
        """The most that it can have cost, as far as prices are known."""
        return self.cost_usd + self.unknown_usd

    @property
    def most_tokens(self) -> int:
        """The most tokens that it can have used."""
        return self.input_tokens + self.output_tokens + self.unknown_tokens


class Ledger(Protocol):
    """Where the spending of a run is put down for good."""

    def record(self, entry: Entry, more: Spending) -> None:
        """Add to an entry; returns at once."""

    def commit(self, *, usd: float, tokens: int) -> None:
        """Put down that the run may have spent this much in all; returns once a kill cannot undo it."""

    def entries(self) -> Mapping[Entry, Spending]:
        """Everything noted so far, of the run as a whole."""

    def committed(self) -> tuple[float, int]:
        """USD and tokens that the run may have spent, as they were last put down."""

    def close(self) -> None:
        """Return when everything is put down."""


class MemoryLedger:
    """Books for as long as the process lives."""

    def __init__(self) -> None:
        self._entries: dict[Entry, Spending] = {}
        self._committed = (0.0, 0)

    def record(self, entry: Entry, more: Spending) -> None:
        """Add to an entry."""
        self._entries[entry] = self._entries.get(entry, Spending()) + more

    def commit(self, *, usd: float, tokens: int) -> None:
        """Remember how much may have been spent."""
        self._committed = (usd, tokens)

    def entries(self) -> Mapping[Entry, Spending]:
        """Everything noted so far."""
        return dict(self._entries)

    def committed(self) -> tuple[float, int]:
        """USD and tokens."""
        return self._committed

    def close(self) -> None:
        """Nothing is left to be done."""
