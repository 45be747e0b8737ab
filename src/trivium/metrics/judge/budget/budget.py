"""Budget: reserves the maximum cost before a request and settles the actual cost after it.

The maximum needs an upper bound on tokens. A response reports the input tokens of its whole request, so the
part that all cases share (instructions, schema, what the provider adds) has at most the smallest count seen.
For the rest every byte counts as a token, because byte-level tokenizers never make more. The bound therefore
holds for any text, and is tight for short texts from the first response on.
"""

import asyncio
from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import msgspec

from trivium.metrics.judge.budget.ledger import Entry, Ledger, MemoryLedger, Spending
from trivium.metrics.judge.budget.prices import Price, Prices, models_of
from trivium.metrics.judge.client.request import ModelRequest, ModelResponse
from trivium.suites.rubrics.rubric import Dimension
from trivium.suites.settings import JudgeSettings

ADVANCE = 0.02
"""Share of the budget that is committed to the ledger in advance, so that few requests wait for the disk."""


class Spent(Exception):
    """The budget does not allow the request; the text says so in one line."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """The cost and tokens reserved for one request in flight.

    Attributes:
        request: The request.
        entry: Ledger entry that is charged.
        price: Price of the model, or None if unknown.
        usd: Most it can cost; 0 without a known price.
        read: Most input tokens.
        written: Most output tokens.
    """

    request: ModelRequest
    entry: Entry
    price: Price | None
    usd: float
    read: int
    written: int

    @property
    def tokens(self) -> int:
        """Most tokens the request can use."""
        return self.read + self.written

    @property
    def unknown(self) -> Spending:
        """Spending to record while it is not known what is billed: in flight, or ended unknown."""
        return Spending(requests=1, unknown=1, unknown_usd=self.usd, unknown_tokens=self.tokens)


class Budget(Protocol):
    """Decides whether a request may be sent, and records what it cost."""

    async def reserve(self, request: ModelRequest, *, about: tuple[str, ...]) -> Reservation:
        """Reserve the most that a request can cost; waits while requests in flight may leave enough.

        Called before every request, retries included. Every reservation must be settled.

        Args:
            request: The request.
            about: The dimensions it judges, which share its cost.

        Raises:
            Spent: If the budget does not suffice.
        """

    def settle(
        self, reservation: Reservation, response: ModelResponse | None, *, billed: bool, sent: bool = True
    ) -> float | None:
        """Record the actual cost of a request and release its reservation.

        Args:
            reservation: As :meth:`reserve` returned it.
            response: The response, or None.
            billed: Without a response, whether the provider may have billed the request all the same (a
                timeout, a connection lost after sending). Then the reserved maximum is charged, as it is for
                a response without token counts.
            sent: Whether a request was sent at all.

        Returns:
            Cost of the response in USD, or None without a known price or without a response.
        """

    def record_cached(self, request: ModelRequest, *, about: tuple[str, ...]) -> None:
        """Count a response that came from the cache and costs nothing."""


class RunBudget:
    """The budget of one run, for one event loop.

    Args:
        prices: Prices of the suite's models.
        budget_usd: Most USD that the run may spend, or None.
        budget_tokens: Most tokens that it may use, or None.
        ledger: Records its spending. What it holds already counts as spent.
    """

    def __init__(
        self,
        prices: Prices,
        *,
        budget_usd: float | None = None,
        budget_tokens: int | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._prices = prices
        self._budget_usd = budget_usd
        self._budget_tokens = budget_tokens
        self._bounded = budget_usd is not None or budget_tokens is not None
        self._ledger = ledger or MemoryLedger()
        before = sum(self._ledger.entries().values(), Spending())
        # A killed process may have spent what it had committed without recording it.
        committed_usd, committed_tokens = self._ledger.committed()
        self._usd = max(before.most_usd, committed_usd)
        self._tokens = max(before.most_tokens, committed_tokens)
        self._committed_usd, self._committed_tokens = self._usd, self._tokens
        self._held_usd, self._held_tokens, self._in_flight = 0.0, 0, 0
        self._waiting: list[asyncio.Future[None]] = []
        self._committing: asyncio.Future[None] | None = None
        self._bound = ReadBound()
        self._written_ratio = 1.0

    async def reserve(self, request: ModelRequest, *, about: tuple[str, ...]) -> Reservation:
        """See :meth:`Budget.reserve`."""
        name = self._prices.name(request)
        price = self._prices.price(name)
        if price is None and self._budget_usd is not None:
            raise Spent(f"no price of {name} is known, and the run has a budget in USD")
        while True:
            reservation = self._most(request, (name, about), price)
            shortfall = self._shortfall(reservation.usd, reservation.tokens)
            if shortfall is None:
                break
            if not self._in_flight:
                raise Spent(shortfall)
            await self._any_settled()
        self._held_usd += reservation.usd
        self._held_tokens += reservation.tokens
        self._in_flight += 1
        try:
            await self._commit()
        except BaseException:
            self._release(reservation)
            raise
        # If the process is killed now, this stays: sent, billing unknown.
        self._ledger.record(reservation.entry, reservation.unknown)
        return reservation

    def settle(
        self, reservation: Reservation, response: ModelResponse | None, *, billed: bool, sent: bool = True
    ) -> float | None:
        """See :meth:`Budget.settle`."""
        cost: float | None = None
        if response is not None and not _usage_reported(response):
            # Without token counts charge the maximum, or the budget would never be used up.
            more = reservation.unknown + Spending(answered=1)
        elif response is not None:
            cost = None if reservation.price is None else reservation.price.of(response)
            more = Spending(
                requests=1,
                answered=1,
                input_tokens=response.input_tokens,
                output_tokens=response.output_tokens,
                cost_usd=cost or 0.0,
                unpriced=int(cost is None),
            )
            self._bound.learn(reservation.request, response.input_tokens, most=reservation.read)
            self._written_ratio = max(
                self._written_ratio, response.output_tokens / reservation.request.max_tokens
            )
        elif billed:
            more = reservation.unknown
        else:
            more = Spending(requests=int(sent))
        self._usd += more.most_usd
        self._tokens += more.most_tokens
        self._ledger.record(reservation.entry, more - reservation.unknown)
        self._release(reservation)
        return cost

    def record_cached(self, request: ModelRequest, *, about: tuple[str, ...]) -> None:
        """See :meth:`Budget.record_cached`."""
        self._ledger.record((self._prices.name(request), about), Spending(from_cache=1))

    def close(self) -> None:
        """Release what was committed and not spent. Nothing may be in flight."""
        if self._bounded:
            self._ledger.commit(usd=self._usd, tokens=self._tokens)

    def _most(self, request: ModelRequest, entry: Entry, price: Price | None) -> Reservation:
        """Compute the reservation of a request."""
        read = self._bound.most(request)
        written = int(request.max_tokens * self._written_ratio) + 1
        usd = 0.0 if price is None else price.most(input_tokens=read, output_tokens=written)
        return Reservation(request=request, entry=entry, price=price, usd=usd, read=read, written=written)

    def _shortfall(self, usd: float, tokens: int) -> str | None:
        """Say why the budget does not allow a request, or None if it does."""
        if self._budget_usd is not None and self._usd + self._held_usd + usd > self._budget_usd:
            return (
                f"the budget of ${self._budget_usd:g} is used up: ${self._usd:.6f} is spent, and a request "
                f"may cost ${usd:.6f} (judge.budget_usd)"
            )
        used, most = self._tokens + self._held_tokens, self._budget_tokens
        if most is not None and used + tokens > most:
            return (
                f"the budget of {most:,} tokens is used up: {self._tokens:,} are used, and a request may use "
                f"{tokens:,} (judge.budget_tokens)"
            )
        return None

    async def _any_settled(self) -> None:
        settled = asyncio.get_running_loop().create_future()
        self._waiting.append(settled)
        await settled

    def _release(self, reservation: Reservation) -> None:
        self._held_usd -= reservation.usd
        self._held_tokens -= reservation.tokens
        self._in_flight -= 1
        if not self._in_flight:
            self._held_usd = 0.0  # rounding does not add up over a long run
        waiting, self._waiting = self._waiting, []
        for settled in waiting:
            if not settled.done():
                settled.set_result(None)

    async def _commit(self) -> None:
        """Commit what may be spent before it is spent; one task does so for all that wait."""
        while self._needs_commit():
            if self._committing is not None:
                await asyncio.wait([self._committing])
                continue
            self._committing = asyncio.get_running_loop().create_future()
            try:
                usd = _ahead(self._usd + self._held_usd, self._budget_usd)
                tokens = int(_ahead(self._tokens + self._held_tokens, self._budget_tokens))
                await asyncio.to_thread(self._ledger.commit, usd=usd, tokens=tokens)
                self._committed_usd, self._committed_tokens = usd, tokens
            finally:
                self._committing.set_result(None)
                self._committing = None

    def _needs_commit(self) -> bool:
        usd, tokens = self._usd + self._held_usd, self._tokens + self._held_tokens
        return (self._budget_usd is not None and usd > self._committed_usd) or (
            self._budget_tokens is not None and tokens > self._committed_tokens
        )


def _usage_reported(response: ModelResponse) -> bool:
    """Whether the provider reported token counts: an answer needs input tokens, and a text output tokens."""
    return response.input_tokens > 0 and (response.output_tokens > 0 or not response.text)


def _ahead(needed: float, budget: float | None) -> float:
    """The amount needed plus an advance, within the budget."""
    return needed if budget is None else min(needed + ADVANCE * budget, max(needed, budget))


def run_budget(judge: JudgeSettings, *, ledger: Ledger | None = None) -> RunBudget:
    """Create the budget of a suite's settings.

    Args:
        judge: The settings.
        ledger: Records the spending; None for one in memory.
    """
    return RunBudget(
        Prices(models_of(judge), judge.prices),
        budget_usd=judge.budget_usd,
        budget_tokens=judge.budget_tokens,
        ledger=ledger,
    )


FRAMING = 600
"""Tokens that providers add to a request: roles, and the text that introduces a tool or a schema."""

TURN = 16
"""Tokens that providers add to each message."""

SAFETY = 1.25
"""Factor on reported counts: a router may use another model, with another tokenizer."""

FEWEST = 1 / 8
"""Fewest tokens a byte of instructions; a provider that reports fewer does not count all of them."""


class ReadBound:
    """Upper bound on input tokens, which tightens with every response.

    The same text is assumed to have the same tokens. A provider that counts more than the bound raises it.
    """

    def __init__(self) -> None:
        self._shared: dict[bytes, int] = {}
        self._ratio = 1.0

    def most(self, request: ModelRequest) -> int:
        """Most input tokens of a request."""
        own = _own_bytes(request)
        known = self._shared.get(_shared_key(request))
        shared = _shared_bytes(request)
        if known is not None:
            instructions = len(request.instructions.encode())
            shared = min(shared, int(SAFETY * max(known, FEWEST * instructions)) + 1)
        return int((shared + own) * self._ratio) + 1

    def learn(self, request: ModelRequest, input_tokens: int, *, most: int) -> None:
        """Update the bound from a response.

        Args:
            request: The request that was answered.
            input_tokens: Its input tokens as reported.
            most: The bound it had.
        """
        key = _shared_key(request)
        self._shared[key] = min(input_tokens, self._shared.get(key, input_tokens))
        self._ratio = max(self._ratio, self._ratio * input_tokens / most)


def _shared_key(request: ModelRequest) -> bytes:
    """Digest of the part that many requests share."""
    shared = [
        request.provider,
        request.address,
        request.model,
        request.instructions,
        request.schema,
        request.output,
        request.body,
    ]
    return blake2b(msgspec.json.encode(shared), digest_size=16).digest()


def _shared_bytes(request: ModelRequest) -> int:
    """UTF-8 bytes of the shared part; the schema counts twice, because providers' strict forms are longer."""
    return len(request.instructions.encode()) + 2 * len(msgspec.json.encode(request.schema)) + FRAMING


def _own_bytes(request: ModelRequest) -> int:
    """UTF-8 bytes of the part that a request shares with no other."""
    texts = (request.case, *request.turns)
    return sum(len(text.encode()) for text in texts) + TURN * (len(texts) + 1)


_FRAME = 500
_DIMENSION = 1000
_CRITERION = 250
_CLAIMS = 4000
"""Tokens: of a whole answer, of a dimension's reason and quotes, of a criterion explained, of claims checked
one by one. About three times what models write."""

THINKING = 16_000
"""Tokens for a model that thinks before it answers; providers count its thoughts as output."""

MOST = 8_000
MOST_WITH_THOUGHTS = 20_000
"""Beyond these, models refuse the request, or their clients want to stream the answer."""


def answer_tokens(dimensions: Sequence[Dimension], *, thinks: bool) -> int:
    """Most output tokens of an answer that judges some dimensions.

    A tight bound lets a small budget go further, because every request in flight reserves its bound. A bound
    that cuts answers off would cost a second request for each.

    Args:
        dimensions: The dimensions judged in one request.
        thinks: Whether the model reasons before it answers.
    """
    needed = _FRAME + sum(
        _DIMENSION + _CRITERION * len(each.criteria) + _CLAIMS * each.claims for each in dimensions
    )
    return min(needed + THINKING, MOST_WITH_THOUGHTS) if thinks else min(needed, MOST)
