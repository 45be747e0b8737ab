"""Reserves the maximum cost before a request and settles the actual cost after it.

The maximum needs an upper bound on tokens. A response reports the input tokens of its whole request, so the
part that all cases share (instructions, schema, what the provider adds) has at most the smallest count
reported. For the rest every byte counts as a token, because byte-level tokenizers produce no more. The bound
therefore holds for any text, and is tight for short texts from the first response on.

Several processes may spend one budget. Each draws amounts from the ledger, which adds up what all have drawn
and refuses what would pass the budget; what a process drew and does not need it gives back. A process that
finds too little left, because others may need what they have drawn, takes the budget as used up.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from trivium.metrics.judge.budget.ledger import Draw, Entry, Ledger, Spending
from trivium.metrics.judge.budget.prices import Price, Prices, models_of
from trivium.metrics.judge.client.providers import GivenUp
from trivium.metrics.judge.client.request import ModelRequest, ModelResponse
from trivium.suites.rubrics.rubric import Dimension
from trivium.suites.settings import JudgeSettings

ADVANCE_SHARE = 0.02
"""Share of the budget that is drawn from the ledger in advance, so that few requests wait for the disk."""

FRAMING_TOKENS = 600
"""Tokens that providers add to a request: roles, and the text that introduces a tool or a schema."""

TURN_TOKENS = 16
"""Tokens that providers add to each message."""

SAFETY_FACTOR = 1.25
"""Factor on reported counts: a router may choose another model with another tokenizer."""

MIN_TOKENS_PER_BYTE = 1 / 8
"""Fewest tokens per byte of instructions; a provider that reports fewer does not count all of them."""

_FRAME_TOKENS = 500
_DIMENSION_TOKENS = 1000
_CRITERION_TOKENS = 250
_CLAIMS_TOKENS = 4000
"""Assumed output tokens of a whole answer, a dimension's reason and quotes, a criterion's explanation, and
claims checked one by one: about three times what models write."""

REASONING_TOKENS = 16_000
"""Output tokens for a model that reasons before it answers; providers count its reasoning as output."""

MAX_ANSWER_TOKENS = 8_000
MAX_REASONING_ANSWER_TOKENS = 20_000
"""Beyond these limits models refuse the request, or their clients require streaming."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """The cost and tokens reserved for one request in flight.

    Attributes:
        request: The request.
        entry: Ledger entry that is charged.
        price: Price of the model, or None if unknown.
        usd: Maximum cost in USD; 0 if the price is unknown.
        input_tokens: Maximum number of input tokens.
        output_tokens: Maximum number of output tokens.
    """

    request: ModelRequest
    entry: Entry
    price: Price | None
    usd: float
    input_tokens: int
    output_tokens: int

    @property
    def tokens(self) -> int:
        """Maximum number of tokens of the request."""
        return self.input_tokens + self.output_tokens

    @property
    def as_unknown(self) -> Spending:
        """Spending to record while the billing is unknown: in flight, or after an unclear end."""
        return Spending(requests=1, unknown=1, unknown_usd=self.usd, unknown_tokens=self.tokens)


class Account:
    """What this process has drawn of one limit, in USD or in tokens, spent and reserved.

    Attributes:
        limit: The limit of the run; None for no limit.
        advance: What is drawn in advance.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.advance = ADVANCE_SHARE * (limit or 0)
        self.drawn = self.spent = self.reserved = 0.0

    def needed(self, more: float = 0.0) -> float:
        """What must be drawn for one more request; not positive if enough is drawn, 0 without a limit."""
        return 0.0 if self.limit is None else self.spent + self.reserved + more - self.drawn


class Budget:
    """The budget of one run, for one event loop; several processes may share it through a ledger.

    Args:
        prices: Prices of the suite's models.
        budget_usd: Limit of the run's spending in USD, or None.
        budget_tokens: Limit of the run's tokens, or None.
        ledger: Records the spending; what it already holds counts.
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
        self._usd, self._tokens = Account(budget_usd), Account(budget_tokens)
        self._ledger = ledger or Ledger()
        self._in_flight = 0
        self._settled = asyncio.Event()
        self._drawing = asyncio.Lock()
        self._bound = InputTokenBound()
        self._output_ratio = 1.0

    async def reserve(self, request: ModelRequest, *, about: tuple[str, ...]) -> Reservation:
        """Reserve the maximum cost of a request; wait if requests in flight may leave enough.

        Called before every request, retries included. Every reservation must be settled.

        Args:
            request: The request.
            about: The dimensions it judges, which share its cost.

        Raises:
            GivenUp: If the budget does not suffice.
        """
        name = self._prices.name(request)
        price = self._prices.price(name)
        if price is None and self._usd.limit is not None:
            why = f"no price of {name} is known, and the run has a budget in USD"
            raise GivenUp(why, cause="budget")
        while True:
            read, written = self._bound.most(request), int(request.max_tokens * self._output_ratio) + 1
            reservation = Reservation(
                request=request,
                entry=(name, about),
                price=price,
                usd=0.0 if price is None else price.max_cost(input_tokens=read, output_tokens=written),
                input_tokens=read,
                output_tokens=written,
            )
            needed = self._needed(reservation)
            if max(needed) <= 0:
                break
            before = self._in_flight, needed
            if await self._draw(reservation) or before != (self._in_flight, self._needed(reservation)):
                continue
            if not self._in_flight:
                raise GivenUp(self._shortfall(reservation), cause="budget")
            await self._settled.wait()
        self._usd.reserved += reservation.usd
        self._tokens.reserved += reservation.tokens
        self._in_flight += 1
        # If the process is killed now, this stays: sent, billing unknown.
        self._ledger.record(reservation.entry, reservation.as_unknown)
        return reservation

    def settle(
        self, reservation: Reservation, response: ModelResponse | None, *, billed: bool
    ) -> float | None:
        """Record the actual cost of a request and release its reservation.

        Args:
            reservation: As :meth:`reserve` returned it.
            response: The response, or None.
            billed: Whether the provider may bill the request although there is no response (a timeout, a
                connection lost after sending). Then the reserved maximum is charged, as for a response
                without token counts.

        Returns:
            Cost of the response in USD, or None without a known price or without a response.
        """
        cost: float | None = None
        if response is not None and not _usage_reported(response):
            # Without token counts charge the maximum, or the budget would never be used up.
            more = reservation.as_unknown + Spending(answered=1)
        elif response is not None:
            cost = None if reservation.price is None else reservation.price.cost(response)
            more = Spending(
                requests=1,
                answered=1,
                input_tokens=response.input_tokens,
                output_tokens=response.output_tokens,
                cost_usd=cost or 0.0,
                unpriced=int(cost is None),
            )
            self._bound.learn(reservation.request, response.input_tokens, most=reservation.input_tokens)
            self._output_ratio = max(
                self._output_ratio, response.output_tokens / reservation.request.max_tokens
            )
        elif billed:
            more = reservation.as_unknown
        else:
            more = Spending(requests=1)
        self._usd.spent += more.most_usd
        self._tokens.spent += more.most_tokens
        self._ledger.record(reservation.entry, more - reservation.as_unknown)
        self._release(reservation)
        self._give_surplus_back()
        return cost

    def record_cached(self, request: ModelRequest, *, about: tuple[str, ...]) -> None:
        """Count a response from the cache, which costs nothing."""
        self._ledger.record((self._prices.name(request), about), Spending(from_cache=1))

    def close(self) -> None:
        """Give back what was drawn and not spent. No request may be in flight."""
        usd, tokens = self._needed()
        if usd or tokens:
            self._give_back(-usd, -int(tokens))

    def _needed(self, more: Reservation | None = None) -> tuple[float, float]:
        """USD and tokens that must be drawn for one more request (:meth:`Account.needed`)."""
        usd, tokens = (0.0, 0) if more is None else (more.usd, more.tokens)
        return self._usd.needed(usd), self._tokens.needed(tokens)

    def _shortfall(self, reservation: Reservation) -> str:
        """Why the budget does not allow a request, after the ledger has refused it."""
        committed_usd, committed_tokens = self._ledger.committed()
        usd, tokens = self._usd, self._tokens
        # Another process may have given back since then: the one bound that there is refused the request.
        needed = max(0.0, usd.needed(reservation.usd))
        if tokens.limit is None or (usd.limit is not None and committed_usd + needed > usd.limit):
            spent_usd = committed_usd - usd.drawn + usd.spent
            return (
                f"the budget of ${usd.limit:g} is used up: ${spent_usd:.6f} is spent, and a request may cost "
                f"${reservation.usd:.6f} (judge.budget_usd)"
            )
        spent_tokens = int(committed_tokens - tokens.drawn + tokens.spent)
        return (
            f"the budget of {tokens.limit:,} tokens is used up: {spent_tokens:,} are used, and a request "
            f"may use {reservation.tokens:,} (judge.budget_tokens)"
        )

    def _release(self, reservation: Reservation) -> None:
        self._usd.reserved -= reservation.usd
        self._tokens.reserved -= reservation.tokens
        self._in_flight -= 1
        if not self._in_flight:
            self._usd.reserved = 0.0  # rounding does not add up over a long run
        self._settled.set()
        self._settled = asyncio.Event()  # for those who wait from now on

    async def _draw(self, reservation: Reservation) -> bool:
        """Draw what a request needs, and an advance if there is room.

        Returns:
            Whether it is worth looking again: something was drawn, by this task or another.
        """
        before = self._usd.drawn, self._tokens.drawn
        async with self._drawing:
            if before != (self._usd.drawn, self._tokens.drawn):
                return True
            for share in (1, 0):
                usd, tokens = self._needed(reservation)
                draw = Draw(
                    usd=max(0.0, usd + share * self._usd.advance),
                    tokens=max(0, int(tokens + share * self._tokens.advance)),
                    budget_usd=self._usd.limit,
                    budget_tokens=self._tokens.limit,
                )
                if await asyncio.to_thread(self._ledger.draw, draw):
                    self._usd.drawn += draw.usd
                    self._tokens.drawn += draw.tokens
                    return True
            return False

    def _give_surplus_back(self) -> None:
        """Leave to other processes what this one does not need soon."""
        usd, tokens = (-need for need in self._needed())
        advance_usd, advance_tokens = self._usd.advance, self._tokens.advance
        if usd > 2 * advance_usd or tokens > 2 * advance_tokens:
            self._give_back(max(0.0, usd - advance_usd), max(0, int(tokens - advance_tokens)))

    def _give_back(self, usd: float, tokens: int) -> None:
        self._ledger.give_back(usd=usd, tokens=tokens)
        self._usd.drawn -= usd
        self._tokens.drawn -= tokens


def _usage_reported(response: ModelResponse) -> bool:
    """Whether the provider reported token counts: an answer needs input tokens, and a text output tokens."""
    return response.input_tokens > 0 and (response.output_tokens > 0 or not response.text)


def run_budget(judge: JudgeSettings, *, ledger: Ledger | None = None) -> Budget:
    """Create the budget of a suite's settings.

    Args:
        judge: The settings.
        ledger: Records the spending; None for one in memory.
    """
    return Budget(
        Prices(models_of(judge), judge.prices),
        budget_usd=judge.budget_usd,
        budget_tokens=judge.budget_tokens,
        ledger=ledger,
    )


class InputTokenBound:
    """Upper bound on input tokens, which tightens with every response.

    The same text is assumed to have the same tokens. A provider that counts more than the bound raises it.
    """

    def __init__(self) -> None:
        self._shared: dict[tuple[str | bytes, ...], int] = {}
        self._ratio = 1.0

    def most(self, request: ModelRequest) -> int:
        """Maximum number of input tokens of a request."""
        own = _own_bytes(request)
        known = self._shared.get(_shared_key(request))
        shared = _shared_bytes(request)
        if known is not None:
            instructions = len(request.instructions.encode())
            shared = min(shared, int(SAFETY_FACTOR * max(known, MIN_TOKENS_PER_BYTE * instructions)) + 1)
        return int((shared + own) * self._ratio) + 1

    def learn(self, request: ModelRequest, input_tokens: int, *, most: int) -> None:
        """Update the bound from a response.

        Args:
            request: The request that was answered.
            input_tokens: Its reported input tokens.
            most: The bound before the request.
        """
        key = _shared_key(request)
        self._shared[key] = min(input_tokens, self._shared.get(key, input_tokens))
        self._ratio = max(self._ratio, self._ratio * input_tokens / most)


def _shared_key(request: ModelRequest) -> tuple[str | bytes, ...]:
    """The part that many requests share; they share its texts, too, whose hashes Python keeps."""
    place = request.provider, request.address, request.model
    return *place, request.instructions, msgspec.json.encode([request.schema, request.output, request.body])


def _shared_bytes(request: ModelRequest) -> int:
    """UTF-8 bytes of the shared part; the schema counts twice, because providers' strict forms are longer."""
    return len(request.instructions.encode()) + 2 * len(msgspec.json.encode(request.schema)) + FRAMING_TOKENS


def _own_bytes(request: ModelRequest) -> int:
    """UTF-8 bytes of the part that a request shares with no other."""
    texts = (request.case, *request.turns)
    return sum(len(text.encode()) for text in texts) + TURN_TOKENS * (len(texts) + 1)


def answer_tokens(dimensions: Sequence[Dimension], *, thinks: bool) -> int:
    """Limit of the output tokens of an answer about some dimensions.

    A tight limit lets a small budget go further, because every request in flight reserves it. A limit that
    truncates answers costs a second request for each.

    Args:
        dimensions: The dimensions judged in one request.
        thinks: Whether the model reasons before it answers.
    """
    needed = _FRAME_TOKENS + sum(
        _DIMENSION_TOKENS + _CRITERION_TOKENS * len(each.criteria) + _CLAIMS_TOKENS * each.claims
        for each in dimensions
    )
    return (
        min(needed + REASONING_TOKENS, MAX_REASONING_ANSWER_TOKENS)
        if thinks
        else min(needed, MAX_ANSWER_TOKENS)
    )
