"""Spending of a run by model and judged dimensions, and the ledger that records it."""

from collections.abc import Mapping

import msgspec

Entry = tuple[str, tuple[str, ...]]
"""A model as the suite names it, and the dimensions that its requests judged together."""


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """Counts, tokens and cost of some requests.

    Attributes:
        requests: Requests sent, failed ones included.
        answered: Requests with a response, valid or not.
        from_cache: Responses taken from the cache.
        input_tokens: Input tokens, cached responses excluded.
        output_tokens: Output tokens, cached responses excluded.
        cost_usd: Cost in USD of the responses whose price is known.
        unpriced: Responses whose price is unknown.
        unknown: Requests with unknown billing: a timeout, a lost connection, a response without token counts,
            and requests in flight, which a killed process leaves in this state.
        unknown_usd: Maximum cost in USD of the ``unknown`` requests.
        unknown_tokens: Maximum number of tokens of the ``unknown`` requests.
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
        """Maximum cost of the requests in USD, as far as prices are known."""
        return self.cost_usd + self.unknown_usd

    @property
    def most_tokens(self) -> int:
        """Maximum number of tokens of the requests."""
        return self.input_tokens + self.output_tokens + self.unknown_tokens


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """An amount that is drawn from a run's budget before it is spent.

    Attributes:
        usd: Amount in USD.
        tokens: Number of tokens.
        budget_usd: Limit of what the run may have spent in USD with it; None for no limit.
        budget_tokens: Limit of its tokens; None for no limit.
    """

    usd: float = 0.0
    tokens: int = 0
    budget_usd: float | None = None
    budget_tokens: float | None = None

    def fits(self, usd: float, tokens: int) -> bool:
        """Whether the amount may be drawn when this much is committed already."""
        return (self.usd <= 0 or self.budget_usd is None or usd + self.usd <= self.budget_usd) and (
            self.tokens <= 0 or self.budget_tokens is None or tokens + self.tokens <= self.budget_tokens
        )


class Ledger:
    """Record of the spending of a run: in memory, or durable and for several processes in the store."""

    def __init__(self) -> None:
        self._entries: dict[Entry, Spending] = {}
        self._committed = (0.0, 0)

    def record(self, entry: Entry, more: Spending) -> None:
        """Add to an entry and return at once."""
        self._entries[entry] = self._entries.get(entry, Spending()) + more

    def draw(self, draw: Draw) -> bool:
        """Commit an amount durably unless it would exceed a limit, also with concurrent writers.

        Returns:
            Whether it was committed.
        """
        usd, tokens = self._committed
        fits = draw.fits(usd, tokens)
        if fits:
            self._committed = (usd + draw.usd, tokens + draw.tokens)
        return fits

    def give_back(self, *, usd: float, tokens: int) -> None:
        """Take an amount back from what is committed; returns at once."""
        self._committed = (self._committed[0] - usd, self._committed[1] - tokens)

    def entries(self) -> Mapping[Entry, Spending]:
        """Everything recorded for the run when the ledger was opened, and by this process since."""
        return dict(self._entries)

    def committed(self) -> tuple[float, int]:
        """USD and tokens that the run may have spent, as this process last saw them."""
        return self._committed
