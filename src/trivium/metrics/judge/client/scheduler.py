"""Line: the requests to one model, in turn, tried until they are answered (spec: metrics, T2.6)."""

import asyncio
import logging
import math
import random
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from trivium.metrics.judge.budget.budget import Purse
from trivium.metrics.judge.client.cache import Answers, RememberedAnswers
from trivium.metrics.judge.client.concurrency import Sent
from trivium.metrics.judge.client.pydantic_ai_client import Client
from trivium.metrics.judge.client.rate_limiter import MOST_IN_FLIGHT, Limiter
from trivium.metrics.judge.client.request import Call, GivenUp, ParameterRefused, Reply, Trouble
from trivium.metrics.judge.client.retry import PATIENCE, Patience, Tries

log = logging.getLogger(__name__)

Order = Literal["often", "again", "new"]
"""Of those that wait: what is asked again goes first, and last while nothing is answered; what was refused
often goes last as soon as a few are refused in a row."""


HEDGE_AFTER = 2.0
"""A request is overdue when it has taken this many times what nineteen in twenty take, and …"""

HEDGE_SECONDS, HEDGE_SHARE = 1.0, 1 / 3
"""… at least this long, or this share of its time limit where that is less."""

HEDGED_AT_ONCE = 0.1
"""Share of the requests in flight above which being overdue is slowness, and nothing is asked twice."""

WATCH_SECONDS = 0.1
SHARE_KNOWN = 20
"""First requests by which the share of failures is told."""

BEHIND_SECONDS = 0.005
"""Between looks at whether a slow disk has kept up: a kill costs what is not kept yet, which is bounded."""

OUTAGE_OF = 3
"""Judgements that fail one after another, none answered between, which make an outage: or as many as are in
flight where that is more, for failures are heard of before answers. Also refusals in a row."""


TOLD_SECONDS = 10.0
"""A wait that a provider asks for of at least this long is logged, with its end."""


class Flight:
    """One request, or the two of which the first to be answered counts."""

    def __init__(self, call: Call, about: tuple[str, ...], outcome: "asyncio.Future[Reply]") -> None:
        self.call = call
        self.about = about
        self.outcome = outcome
        self.began: float | None = None
        self.runs: set[asyncio.Task[None]] = set()
        self.requests = 0


class Line:
    """Every request to one model at one address.

    Args:
        client: How it is spoken to.
        purse: Asked before every request, and told what it took.
        most: Requests in flight that are allowed, or None to have it found.
        timeout: Seconds that a request may take.
        name: The model's, as the suite has it.
        time_limit: Seconds from now after which nothing is asked any more, nor waited for; None for no limit.
        patience: How long a failing provider is tried.
        outdated: Says of a call that waited for its turn which parameter of it was refused since, if any was.
        answers: Where every reply is kept; while that is behind, no further request goes out.
    """

    def __init__(
        self,
        client: Client,
        purse: Purse,
        *,
        most: int | None,
        timeout: float,
        name: str = "",
        time_limit: float | None = None,
        patience: Patience = PATIENCE,
        answers: Answers | None = None,
        outdated: Callable[[Call], str | None] = lambda _: None,
    ) -> None:
        self.client = client
        self.outdated = outdated
        self._purse = purse
        self._timeout = timeout
        self._name = name
        self._time_limit = math.inf if time_limit is None else time_limit
        self._patience = patience
        self._answers = answers or RememberedAnswers()
        self._most_behind = max(8, 2 * (most or MOST_IN_FLIGHT))
        self.limiter = Limiter(most=most, timeout=timeout)
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + self._time_limit
        self._waiting: dict[Order, deque[asyncio.Future[Sent]]] = {
            "often": deque(),
            "again": deque(),
            "new": deque(),
        }
        self._timer: asyncio.TimerHandle | None = None
        self._flights: set[Flight] = set()
        self._took: deque[float] = deque(maxlen=100)
        self._watch: asyncio.TimerHandle | None = None
        self._firsts = self._bad_firsts = 0
        self._answered = self._refused_before = 0
        self._began: float | None = None
        self._good: float | None = None
        self._asking = 0
        self._turned_away: float | None = None
        self._wait_until = self._round_until = self._logged_until = -math.inf
        self._waits = 0
        self._unusable = 0
        self._failing: set[object] = set()
        self._dead_until = 0.0
        self._dead_of = ""

    async def ask(self, call: Call, *, about: tuple[str, ...]) -> tuple[Reply, int]:
        """The reply, and the requests that it took.

        Raises:
            GivenUp: If there is none, after all that patience allows.
            Spent: If the budget does not allow another request.
        """
        mark = object()
        tries, requests = Tries(), 0
        order: Order = "new"
        if not self._asking:
            self._turned_away = None  # which was long ago, for all that is known
        self._asking += 1
        try:
            while True:
                if (closed := self._closed()) is not None:
                    raise GivenUp(closed)
                flight = Flight(call, about, self._loop.create_future())
                try:
                    reply = await self._fly(flight, order)
                except Trouble as trouble:
                    requests += flight.requests
                    self._note(trouble, mark, first=not tries)
                    if trouble.refused is not None:
                        raise ParameterRefused(str(trouble), trouble.refused) from None
                    if trouble.kind == "final":
                        raise GivenUp(str(trouble)) from None
                    self._note_wait(trouble)
                    limited = trouble.kind == "limited"
                    tries.count(limited=limited, now=self._loop.time(), answered=self._good)
                    if self._enough(tries, trouble):
                        took = f" ({requests} requests)" if requests > 1 else ""
                        raise GivenUp(f"{trouble}{self._too_long(trouble)}{took}") from None
                    pause = self._pause(trouble, tries)
                    log.debug("%s; asked again in %.2f s", trouble, pause)
                    await asyncio.sleep(pause)
                    order = "again" if tries.refused < OUTAGE_OF else "often"
                else:
                    self._firsts += not tries
                    self._answered += 1
                    self._refused_before += tries.refused
                    return reply, requests + flight.requests
        finally:
            self._asking -= 1
            self._failing.discard(mark)

    async def close(self) -> None:
        """End the connections; nothing may be asked any more."""
        for handle in (self._timer, self._watch):
            if handle is not None:
                handle.cancel()
        await self.client.close()

    async def _fly(self, flight: Flight, order: Order) -> Reply:
        self._start(flight, order)
        self._flights.add(flight)
        if self._watch is None:
            self._watch = self._loop.call_later(WATCH_SECONDS, self._look)
        try:
            return await flight.outcome
        finally:
            self._flights.discard(flight)
            for run in flight.runs:
                run.cancel()

    def _start(self, flight: Flight, order: Order) -> None:
        run = self._loop.create_task(self._run(flight, order))
        flight.runs.add(run)
        run.add_done_callback(lambda done: self._landed_run(flight, done))

    def _landed_run(self, flight: Flight, run: "asyncio.Task[None]") -> None:
        flight.runs.discard(run)
        if run.cancelled():
            return
        error = run.exception()
        # While its fellow is under way, a failure is not yet the outcome.
        if error is not None and not flight.runs and not flight.outcome.done():
            flight.outcome.set_exception(error)

    async def _run(self, flight: Flight, order: Order) -> None:
        """One request, from its turn to its end."""
        loop, call = self._loop, flight.call
        sent = await self._turn(order)
        if (closed := self._closed()) is not None:
            self._over(sent, "failed", None)
            raise Trouble(closed, kind="final", sent=False)
        if (parameter := self.outdated(call)) is not None:
            self._over(sent, "failed", None)
            raise Trouble(
                f"{call.model}: {parameter} is refused", kind="final", sent=False, refused=parameter
            )
        ended: Literal["answered", "failed", "late"] = "failed"
        refused: Trouble | None = None
        try:
            hold = await self._purse.hold(call, about=flight.about)
            flight.requests += 1
            reply, billed, went = None, True, True
            headers: dict[str, str] = {}
            try:
                if flight.began is None:
                    flight.began = loop.time()
                async with asyncio.timeout_at(flight.began + self._timeout):
                    reply = await self.client.send(call, lambda: self._left(sent), headers.update)
                ended = "answered"
            except TimeoutError:
                ended = "late"
                why = f"{call.model} did not answer within {self._timeout:g} s"
                raise Trouble(why, kind="late", billed=True) from None
            except Trouble as trouble:
                billed, went = trouble.billed, trouble.sent
                if trouble.same_for_all:
                    self._note_unusable(trouble)  # before the next is let go
                flight.requests -= not went
                refused = trouble if trouble.kind == "limited" else None
                raise
            finally:
                cost = self._purse.pay(hold, reply, billed=billed, sent=went)
                if headers:
                    tokens = 0 if reply is None else reply.input_tokens + reply.output_tokens
                    self.limiter.heard(headers, sent, loop.time(), tokens=tokens)
        finally:
            self._over(sent, ended, refused)
        reply = msgspec.structs.replace(reply, cost_usd=cost)
        self._answers.keep(call.key(), reply)
        if not flight.outcome.done():
            flight.outcome.set_result(reply)

    def _left(self, sent: Sent) -> None:
        """A request has gone out."""
        self.limiter.left(sent, self._loop.time())
        self._pump()

    def _over(self, sent: Sent, ended: str, refused: Trouble | None) -> None:
        now = self._loop.time()
        if refused is not None:
            self._turned_away = self._turned_away or now
            self.limiter.rejected(sent, now, retry_after=refused.retry_after)
        elif ended == "late":
            self.limiter.late(sent, now)
        elif ended == "failed":
            self.limiter.failed(sent, now)
        else:
            self.limiter.answered(sent, now)
            self._took.append(now - sent.time)
            self._good = now
            self._turned_away = None
            self._waits = self._unusable = 0
            self._failing.clear()
        self._pump()

    async def _turn(self, order: Order) -> Sent:
        """Wait until a request may be sent."""
        turn: asyncio.Future[Sent] = self._loop.create_future()
        self._waiting[order].append(turn)
        self._pump()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._over(turn.result(), "failed", None)
            raise

    def _pump(self) -> None:
        """Let those go whose turn it is."""
        while (queue := self._next_queue()) is not None:
            if queue[0].done():
                queue.popleft()
                continue
            now = self._loop.time()
            if self._down() and self.limiter.in_flight:
                return  # one at a time finds out whether the provider is back
            behind = self._answers.behind() >= self._most_behind
            wait = BEHIND_SECONDS if behind else self.limiter.ready(now)
            if wait is None:
                return
            if wait > 0:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_later(wait, self._pump)
                return
            turn = queue.popleft()
            if self._began is None:
                self._began = now
            turn.set_result(self.limiter.sent(now))

    def _next_queue(self) -> deque[asyncio.Future[Sent]] | None:
        often, again, new = self._waiting.values()
        # Whether a provider is back is not found out from prompts that may be failing by themselves.
        if self._down():
            return new or again or often or None
        if self.limiter.pace.in_row >= OUTAGE_OF:
            return again or new or often or None
        return often or again or new or None

    def _look(self) -> None:
        """Ask a second time for what is long overdue: a hanging connection costs a moment, not a minute."""
        self._watch = None
        if not self._flights:
            return
        self._watch = self._loop.call_later(WATCH_SECONDS, self._look)
        if len(self._took) < 10:
            return
        usual = sorted(self._took)[int(0.95 * (len(self._took) - 1))]
        limit = max(HEDGE_AFTER * usual, min(HEDGE_SECONDS, HEDGE_SHARE * self._timeout))
        now = self._loop.time()
        overdue = [
            flight
            for flight in self._flights
            if flight.began is not None and len(flight.runs) == 1 and now - flight.began > limit
        ]
        if len(overdue) <= max(2, HEDGED_AT_ONCE * self.limiter.in_flight):
            for flight in overdue:
                if flight.requests == 1:
                    self._start(flight, "again")

    def _note(self, trouble: Trouble, mark: object, *, first: bool) -> None:
        """Keep count of what fails, to tell bad luck, a bad prompt and an outage apart."""
        if first:
            self._firsts += 1
            self._bad_firsts += trouble.kind in ("failing", "lost", "late")
        if trouble.kind in ("failing", "lost", "late") and first:
            self._failing.add(mark)
        if self._down():
            now = self._loop.time()
            self.limiter.pace.hold(now + min(2.0, max(0.1, 0.3 * (now - self._since()))))
            self._pump()

    def _down(self) -> bool:
        return len(self._failing) >= max(OUTAGE_OF, self.limiter.in_flight)

    def _since(self) -> float:
        """When the provider was last known to be well."""
        return self._good or self._began or self._loop.time()

    def _closed(self) -> str | None:
        """Why nothing may be asked now, or None."""
        now = self._loop.time()
        if now < self._dead_until:
            return self._dead_of
        if now >= self._deadline:
            return f"{self._name}: the {self._time_limit:,g} s of judge.time_limit are over"
        return None

    def _note_unusable(self, trouble: Trouble) -> None:
        """Ask nothing any more of a model whose key, account or name is wrong."""
        self._unusable += 1
        enough = self._patience.unusable if self._answered else self._patience.never_unusable
        if trouble.maybe_one_text and not self._answered:
            enough += 2
        if self._unusable >= enough:
            self.turn_off(str(trouble))

    def turn_off(self, why: str) -> None:
        """Ask nothing any more."""
        if self._dead_until != math.inf:
            self._dead_until, self._dead_of = math.inf, why
            log.warning("the judge %s is off: %s", self._name, why)
            self._wake_all()

    def _note_wait(self, trouble: Trouble) -> None:
        """Keep until when the provider asks to be left alone, and log it where that is long."""
        asked, now = trouble.retry_after or 0.0, self._loop.time()
        if not asked or now + asked > self._deadline:
            return
        if now >= self._round_until:
            self._waits += 1
            self._round_until = now + asked
        self._wait_until = max(self._wait_until, now + asked)
        if asked >= TOLD_SECONDS and now >= self._logged_until:
            self._logged_until = now + asked
            line = "the judge %s: the provider asks to wait %s s (Retry-After): waiting until %s"
            log.warning(line, self._name, f"{asked:,.0f}", _clock(asked))

    def _too_long(self, trouble: Trouble) -> str:
        """Words for a wait that goes beyond the time limit."""
        asked = trouble.retry_after or 0.0
        if self._loop.time() + asked <= self._deadline:
            return ""
        limit = f"the {self._time_limit:,g} s of judge.time_limit"
        return f"; it asks to wait {asked:,.0f} s (Retry-After), until {_clock(asked)}, beyond {limit}"

    def _waiting_since(self, since: float) -> float:
        """From when on a provider is waited for: not before the waits that it asked for are over.

        One that asks for wait after wait and answers nothing between them is not taken at its word for ever.
        """
        return max(since, self._wait_until) if self._waits <= self._patience.tries else since

    def _enough(self, tries: Tries, trouble: Trouble) -> bool:
        patience = self._patience
        now = self._loop.time()
        if now + (trouble.retry_after or 0) > self._deadline:
            return True
        if self._down():
            if now - self._waiting_since(self._since()) < (patience.outage if self._good else patience.never):
                return False
            self._give_up(trouble, now)
            return True
        share = self._bad_firsts / self._firsts if self._firsts >= SHARE_KNOWN else 0.0
        if tries.failed >= min(patience.most_tries, max(patience.tries, patience.unlucky(share))):
            return True
        # Of everything, and for so long that what is in flight would have been answered.
        waited = now - self._waiting_since(self._turned_away or now)
        if self._turned_away and waited > max(patience.outage, self._timeout):
            self._give_up(trouble, now)
            return True
        # Of a prompt that is never let through, while others are.
        often = tries.refused >= patience.most_tries and self._beyond_luck(tries) >= 0
        return often and now - tries.since > patience.longest_pause

    def _beyond_luck(self, tries: Tries) -> int:
        """Refusals of one prompt, while others are let through, beyond those that may be bad luck."""
        share = (self._refused_before + 1) / (self._refused_before + self._answered + 2)
        return tries.passed_by - self._patience.unlucky(share)

    def _give_up(self, trouble: Trouble, now: float) -> None:
        """Ask nothing for a while, and nothing that waits now: a run ends by itself."""
        if now >= self._dead_until:
            self._dead_until = max(now + 30, self._wait_until)  # those that sleep until then learn of it
            self._dead_of = f"{trouble}; the judge is unavailable"
            log.warning("judge unavailable, giving up for now: %s", trouble)
            self._wake_all()

    def _wake_all(self) -> None:
        """Those that wait learn that nobody answers."""
        for queue in self._waiting.values():
            while queue:
                turn = queue.popleft()
                if not turn.done():
                    turn.set_exception(Trouble(self._dead_of, kind="final"))

    def _pause(self, trouble: Trouble, tries: Tries) -> float:
        """Seconds until the next try; when that is sent, the limiter says."""
        if trouble.kind == "limited":
            # When there is room the limiter says; one that is refused over and over lets others try, and one
            # that alone is refused comes back ever later.
            own = 0.0 if tries.refused < 2 else min(0.1, 0.01 * 2.0 ** min(tries.refused - 2, 4))
            beyond = self._beyond_luck(tries)
            if beyond > 0:
                own = min(self._patience.own_pause, 0.1 * 2.0 ** min(beyond, 10))
        else:
            own = min(self._patience.own_pause, self._patience.first_pause * 2.0 ** (tries.failed - 1))
        own *= random.uniform(0.5, 1)  # noqa: S311 - so that many do not come back at once
        return max(own, trouble.retry_after or 0.0)


def _clock(seconds: float) -> str:
    """The time of day in so many seconds, with the date where it is not today's; the local zone's."""
    now = datetime.now(UTC).astimezone()
    then = now + timedelta(seconds=min(seconds, 1e9))
    return f"{then:%H:%M:%S}" if then.date() == now.date() else f"{then:%Y-%m-%d %H:%M:%S}"
