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

from trivium.metrics.judge.budget.ledger import Books, Entry, RememberedBooks, Spending
from trivium.metrics.judge.budget.prices import Price, Prices, models_of
from trivium.metrics.judge.client.request import Call, Reply
from trivium.suites.rubrics.rubric import Dimension
from trivium.suites.settings import JudgeSettings

ADVANCE = 0.02
"""Share of the budget that is put down as spent beforehand, so that not every request waits for a disk."""


class Spent(Exception):
    """The budget does not allow the request; the text says so in one line."""


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """What is set aside for one request in flight.

    Attributes:
        call: The request.
        entry: Whose spending it is.
        price: Of the model, or None where nobody knows.
        usd: The most it can cost; 0 where no price is known.
        read: The most tokens it can read.
        written: The most tokens it can write.
    """

    call: Call
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


class Purse(Protocol):
    """Says of every request whether it may be sent, and takes note of what it took."""

    async def hold(self, call: Call, *, about: tuple[str, ...]) -> Hold:
        """Set aside what a request can cost at most; waits while those in flight might leave enough.

        Called before every request, retries included; what is held must be paid.

        Args:
            call: The request.
            about: The dimensions that it judges, which share what it costs.

        Raises:
            Spent: If the budget cannot allow it.
        """

    def pay(self, hold: Hold, reply: Reply | None, *, billed: bool, sent: bool = True) -> float | None:
        """Take note of how a request ended.

        Args:
            hold: What was set aside for it.
            reply: What came back, if anything did.
            billed: Without a reply, whether the provider may have billed it all the same (a timeout, a
                connection lost after sending): then the most it can cost is charged, as for a reply of
                which the provider does not say what it took.
            sent: Whether there was a request at all.

        Returns:
            USD that the reply cost, or None where no price is known or nothing came.
        """

    def found(self, call: Call, *, about: tuple[str, ...]) -> None:
        """Take note of a reply that had been kept: it costs nothing."""


class RunPurse:
    """The purse of one run, for one event loop.

    Args:
        prices: Of the suite's models.
        budget_usd: Most that the run may spend, or None.
        budget_tokens: Most tokens that it may use, or None.
        books: Where its spending is put down; what they hold already is spent.
    """

    def __init__(
        self,
        prices: Prices,
        *,
        budget_usd: float | None = None,
        budget_tokens: int | None = None,
        books: Books | None = None,
    ) -> None:
        self._prices = prices
        self._budget_usd = budget_usd
        self._budget_tokens = budget_tokens
        self._bounded = budget_usd is not None or budget_tokens is not None
        self._books = books or RememberedBooks()
        before = sum(self._books.entries().values(), Spending())
        # What a killed process had drawn and not accounted for may have been spent.
        drawn_usd, drawn_tokens = self._books.drawn()
        self._usd = max(before.most_usd, drawn_usd)
        self._tokens = max(before.most_tokens, drawn_tokens)
        self._drawn_usd, self._drawn_tokens = self._usd, self._tokens
        self._held_usd, self._held_tokens, self._in_flight = 0.0, 0, 0
        self._waiting: list[asyncio.Future[None]] = []
        self._drawing: asyncio.Future[None] | None = None
        self._bound = ReadBound()
        self._written_ratio = 1.0

    async def hold(self, call: Call, *, about: tuple[str, ...]) -> Hold:
        """See :meth:`Purse.hold`."""
        name = self._prices.name(call)
        price = self._prices.price(name)
        if price is None and self._budget_usd is not None:
            raise Spent(f"no price of {name} is known, and the run has a budget in USD")
        while True:
            hold = self._most(call, (name, about), price)
            lacking = self._lacking(hold.usd, hold.tokens)
            if lacking is None:
                break
            if not self._in_flight:
                raise Spent(lacking)
            await self._something_paid()
        self._held_usd += hold.usd
        self._held_tokens += hold.tokens
        self._in_flight += 1
        try:
            await self._draw()
        except BaseException:
            self._release(hold)
            raise
        # A process that is killed leaves it at that: sent, with an end that nobody knows.
        self._books.note(hold.entry, hold.unknown)
        return hold

    def pay(self, hold: Hold, reply: Reply | None, *, billed: bool, sent: bool = True) -> float | None:
        """See :meth:`Purse.pay`."""
        cost: float | None = None
        if reply is not None and not _told(reply):
            # Without a count nobody knows what it took: an endless budget is none.
            more = hold.unknown + Spending(answered=1)
        elif reply is not None:
            cost = None if hold.price is None else hold.price.of(reply)
            more = Spending(
                requests=1,
                answered=1,
                input_tokens=reply.input_tokens,
                output_tokens=reply.output_tokens,
                cost_usd=cost or 0.0,
                unpriced=int(cost is None),
            )
            self._bound.learn(hold.call, reply.input_tokens, most=hold.read)
            self._written_ratio = max(self._written_ratio, reply.output_tokens / hold.call.max_tokens)
        elif billed:
            more = hold.unknown
        else:
            more = Spending(requests=int(sent))
        self._usd += more.most_usd
        self._tokens += more.most_tokens
        self._books.note(hold.entry, more - hold.unknown)
        self._release(hold)
        return cost

    def found(self, call: Call, *, about: tuple[str, ...]) -> None:
        """See :meth:`Purse.found`."""
        self._books.note((self._prices.name(call), about), Spending(from_cache=1))

    def close(self) -> None:
        """Give back what was drawn and not spent; nothing may be in flight."""
        if self._bounded:
            self._books.draw(usd=self._usd, tokens=self._tokens)

    def _most(self, call: Call, entry: Entry, price: Price | None) -> Hold:
        """A call with the most that it can take."""
        read = self._bound.most(call)
        written = int(call.max_tokens * self._written_ratio) + 1
        usd = 0.0 if price is None else price.most(input_tokens=read, output_tokens=written)
        return Hold(call=call, entry=entry, price=price, usd=usd, read=read, written=written)

    def _lacking(self, usd: float, tokens: int) -> str | None:
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

    async def _something_paid(self) -> None:
        paid = asyncio.get_running_loop().create_future()
        self._waiting.append(paid)
        await paid

    def _release(self, hold: Hold) -> None:
        self._held_usd -= hold.usd
        self._held_tokens -= hold.tokens
        self._in_flight -= 1
        if not self._in_flight:
            self._held_usd = 0.0  # rounding does not add up over a long run
        waiting, self._waiting = self._waiting, []
        for paid in waiting:
            if not paid.done():
                paid.set_result(None)

    async def _draw(self) -> None:
        """Put down what may be spent before it is; one does so for all that wait."""
        while self._needs_drawing():
            if self._drawing is not None:
                await asyncio.wait([self._drawing])
                continue
            self._drawing = asyncio.get_running_loop().create_future()
            try:
                usd = _ahead(self._usd + self._held_usd, self._budget_usd)
                tokens = int(_ahead(self._tokens + self._held_tokens, self._budget_tokens))
                await asyncio.to_thread(self._books.draw, usd=usd, tokens=tokens)
                self._drawn_usd, self._drawn_tokens = usd, tokens
            finally:
                self._drawing.set_result(None)
                self._drawing = None

    def _needs_drawing(self) -> bool:
        usd, tokens = self._usd + self._held_usd, self._tokens + self._held_tokens
        return (self._budget_usd is not None and usd > self._drawn_usd) or (
            self._budget_tokens is not None and tokens > self._drawn_tokens
        )


def _told(reply: Reply) -> bool:
    """Whether the provider said how many tokens it counted: no answer is made of nothing read or written."""
    return reply.input_tokens > 0 and (reply.output_tokens > 0 or not reply.text)


def _ahead(needed: float, budget: float | None) -> float:
    """What is needed and an advance, within the budget."""
    return needed if budget is None else min(needed + ADVANCE * budget, max(needed, budget))


def run_purse(judge: JudgeSettings, *, books: Books | None = None) -> RunPurse:
    """The purse that a suite's settings make.

    Args:
        judge: The settings.
        books: Where spending is put down; None remembers it.
    """
    return RunPurse(
        Prices(models_of(judge), judge.prices),
        budget_usd=judge.budget_usd,
        budget_tokens=judge.budget_tokens,
        books=books,
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

    def most(self, call: Call) -> int:
        """The most tokens that a call can read."""
        own = _own_bytes(call)
        known = self._shared.get(_shared_key(call))
        shared = _shared_bytes(call)
        if known is not None:
            instructions = len(call.instructions.encode())
            shared = min(shared, int(SAFETY * max(known, FEWEST * instructions)) + 1)
        return int((shared + own) * self._ratio) + 1

    def learn(self, call: Call, input_tokens: int, *, most: int) -> None:
        """Take note of what an answer tells.

        Args:
            call: That was answered.
            input_tokens: That it read.
            most: What it was expected to read at most.
        """
        key = _shared_key(call)
        self._shared[key] = min(input_tokens, self._shared.get(key, input_tokens))
        self._ratio = max(self._ratio, self._ratio * input_tokens / most)


def _shared_key(call: Call) -> bytes:
    """Digest of what many calls share."""
    shared = [call.provider, call.address, call.model, call.instructions, call.schema, call.output, call.body]
    return blake2b(msgspec.json.encode(shared), digest_size=16).digest()


def _shared_bytes(call: Call) -> int:
    """UTF-8 bytes of what many calls share; a schema counts twice, for providers' strict forms are longer."""
    return len(call.instructions.encode()) + 2 * len(msgspec.json.encode(call.schema)) + FRAMING


def _own_bytes(call: Call) -> int:
    """UTF-8 bytes of what a call alone has."""
    texts = (call.case, *call.turns)
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
