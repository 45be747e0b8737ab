"""Reserve / settle cost per request, token bounds.

An answer says how many tokens its whole request had, so what all cases share (instructions, schema, what the
provider adds) has no more than the fewest of them. Of the rest, every byte counts as a token, for byte-level
tokenizers never make more. So the bound holds for texts of any kind, and is tight for short ones from the
first answer on.
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
"""Share of the budget that is put down as spent beforehand, so that not every request waits for a disk."""


class Spent(Exception):
    """The budget does not allow the request; the text says so in one line."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """What is set aside for one request in flight.

    Attributes:
        request: The request.
        entry: Whose spending it is.
        price: Of the model, or None where nobody knows.
        usd: The most it can cost; 0 where no price is known.
        read: The most tokens it can read.
        written: The most tokens it can write.
    """

    request: ModelRequest
    entry: Entry
    price: Price | None
    usd: float
    read: int
    written: int

    @property
    def tokens(self) -> int:
        """The most tokens it can use."""
        return self.read + self.written

    @property
    def unknown(self) -> Spending:
        """The request while nobody knows what is billed for it: in flight, or with an unknown end."""
        return Spending(requests=1, unknown=1, unknown_usd=self.usd, unknown_tokens=self.tokens)


class Budget(Protocol):
    """Says of every request whether it may be sent, and takes note of what it took."""

    async def reserve(self, request: ModelRequest, *, about: tuple[str, ...]) -> Reservation:
        """Set aside what a request can cost at most; waits while those in flight might leave enough.

        Called before every request, retries included; what is held must be paid.

        Args:
            request: The request.
            about: The dimensions that it judges, which share what it costs.

        Raises:
            Spent: If the budget cannot allow it.
        """

    def settle(
        self, reservation: Reservation, response: ModelResponse | None, *, billed: bool, sent: bool = True
    ) -> float | None:
        """Take note of how a request ended.

        Args:
            reservation: What was set aside for it.
            response: What came back, if anything did.
            billed: Without a reply, whether the provider may have billed it all the same (a timeout, a
                connection lost after sending): then the most it can cost is charged, as for a reply of
                which the provider does not say what it took.
            sent: Whether there was a request at all.

        Returns:
            USD that the reply cost, or None where no price is known or nothing came.
        """

    def record_cached(self, request: ModelRequest, *, about: tuple[str, ...]) -> None:
        """Take note of a reply that had been kept: it costs nothing."""


class RunBudget:
    """The purse of one run, for one event loop.

    Args:
        prices: Of the suite's models.
        budget_usd: Most that the run may spend, or None.
        budget_tokens: Most tokens that it may use, or None.
        ledger: Where its spending is put down; what they hold already is spent.
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
        # What a killed process had drawn and not accounted for may have been spent.
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
        # A process that is killed leaves it at that: sent, with an end that nobody knows.
        self._ledger.record(reservation.entry, reservation.unknown)
        return reservation

    def settle(
        self, reservation: Reservation, response: ModelResponse | None, *, billed: bool, sent: bool = True
    ) -> float | None:
        """See :meth:`Budget.settle`."""
        cost: float | None = None
        if response is not None and not _usage_reported(response):
            # Without a count nobody knows what it took: an endless budget is none.
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
        """Give back what was drawn and not spent; nothing may be in flight."""
        if self._bounded:
            self._ledger.commit(usd=self._usd, tokens=self._tokens)

    def _most(self, request: ModelRequest, entry: Entry, price: Price | None) -> Reservation:
        """A call with the most that it can take."""
        read = self._bound.most(request)
        written = int(request.max_tokens * self._written_ratio) + 1
        usd = 0.0 if price is None else price.most(input_tokens=read, output_tokens=written)
        return Reservation(request=request, entry=entry, price=price, usd=usd, read=read, written=written)

    def _shortfall(self, usd: float, tokens: int) -> str | None:
        """What the budget lacks for a request, in words."""
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
        """Put down what may be spent before it is; one does so for all that wait."""
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
    """Whether the provider said how many tokens it counted: no answer is made of nothing read or written."""
    return response.input_tokens > 0 and (response.output_tokens > 0 or not response.text)


def _ahead(needed: float, budget: float | None) -> float:
    """What is needed and an advance, within the budget."""
    return needed if budget is None else min(needed + ADVANCE * budget, max(needed, budget))


def run_budget(judge: JudgeSettings, *, ledger: Ledger | None = None) -> RunBudget:
    """The purse that a suite's settings make.

    Args:
        judge: The settings.
        ledger: Where spending is put down; None remembers it.
    """
    return RunBudget(
        Prices(models_of(judge), judge.prices),
        budget_usd=judge.budget_usd,
        budget_tokens=judge.budget_tokens,
        ledger=ledger,
    )


FRAMING = 600
"""Tokens that providers add to what is sent: roles, and the words that introduce a tool or a schema."""

TURN = 16
"""Tokens that they add to each message."""

SAFETY = 1.25
"""On what an answer told, for a router may have another model answer, whose tokenizer is another."""

FEWEST = 1 / 8
"""Tokens a byte of instructions; a provider that tells fewer leaves some out of its count."""


class ReadBound:
    """The most tokens that calls can read, tighter with every answer.

    Tokens are taken to be the same for the same text. A provider that counts more than the bound raises it.
    """

    def __init__(self) -> None:
        self._shared: dict[bytes, int] = {}
        self._ratio = 1.0

    def most(self, request: ModelRequest) -> int:
        """The most tokens that a call can read."""
        own = _own_bytes(request)
        known = self._shared.get(_shared_key(request))
        shared = _shared_bytes(request)
        if known is not None:
            instructions = len(request.instructions.encode())
            shared = min(shared, int(SAFETY * max(known, FEWEST * instructions)) + 1)
        return int((shared + own) * self._ratio) + 1

    def learn(self, request: ModelRequest, input_tokens: int, *, most: int) -> None:
        """Take note of what an answer tells.

        Args:
            request: That was answered.
            input_tokens: That it read.
            most: What it was expected to read at most.
        """
        key = _shared_key(request)
        self._shared[key] = min(input_tokens, self._shared.get(key, input_tokens))
        self._ratio = max(self._ratio, self._ratio * input_tokens / most)


def _shared_key(request: ModelRequest) -> bytes:
    """Digest of what many calls share."""
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
    """UTF-8 bytes of what many calls share; a schema counts twice, for providers' strict forms are longer."""
    return len(request.instructions.encode()) + 2 * len(msgspec.json.encode(request.schema)) + FRAMING


def _own_bytes(request: ModelRequest) -> int:
    """UTF-8 bytes of what a call alone has."""
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
    """Most tokens of an answer that judges some dimensions.

    A tight bound lets a small budget go further, for every request in flight is held at its bound; one that
    cuts answers short would pay twice for each.

    Args:
        dimensions: Judged in one request.
        thinks: Whether the model reasons before it answers.
    """
    needed = _FRAME + sum(
        _DIMENSION + _CRITERION * len(each.criteria) + _CLAIMS * each.claims for each in dimensions
    )
    return min(needed + THINKING, MOST_WITH_THOUGHTS) if thinks else min(needed, MOST)
