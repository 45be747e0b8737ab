"""Schedules, retries and hedges the requests to one model (docs/design/judging.md).

Definition: docs/definitions/judge.md#unavailable-judge.
"""

import asyncio
import logging
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

import msgspec

from trivium.http import Backoff
from trivium.metrics.judge.budget.budget import Budget
from trivium.metrics.judge.client.parameters import Parameters
from trivium.metrics.judge.client.providers import GivenUp
from trivium.metrics.judge.client.rate_limiter import MAX_IN_FLIGHT, Ended, RateLimiter, SentRequest
from trivium.metrics.judge.client.request import (
    AskResult,
    Client,
    ModelRequest,
    ModelResponse,
    RequestError,
    ResponseCache,
)
from trivium.suites.settings import JudgeSettings

log = logging.getLogger(__name__)

Priority = Literal["often", "again", "new"]
"""Queue priority: retries go before new requests, but after them during an outage. Requests that were refused
often go last as soon as a few requests in a row are refused."""

HEDGE_AFTER, HEDGE_SECONDS, HEDGE_SHARE = 2.0, 1.0, 1 / 3
"""A request is overdue after this many times the 95th percentile of recent latencies, and at least so many
seconds, or this share of its timeout if that is shorter."""

HEDGE_CHECK_SECONDS, MAX_HEDGED_SHARE = 0.1, 0.1
"""Interval between checks for overdue requests. If they are more than this share of those in flight, the
provider is slow and none is hedged."""

MIN_FOR_FAILURE_SHARE = 20
"""First attempts needed before the share of failures among them is used."""

CACHE_WAIT_SECONDS = 0.005
"""Interval between checks of the cache's backlog, which is bounded because a killed process loses it."""

OUTAGE_FAILURES, OUTAGE_PROBE_SECONDS = 3, 1.0
"""Judgements in a row whose failure counts as an outage, or the number of requests in flight if that is
larger, because failures return faster than answers; and the interval between probes then. The former is also
used for refusals in a row."""

LOGGED_WAIT_SECONDS = 10.0
"""A Retry-After of at least this long is logged, with the time at which it ends."""

FAILED, REFUSED_ALONE = Backoff(first=0.05, longest=5), Backoff(first=0.2, longest=5)
REFUSED = Backoff(first=0.01, longest=0.1)
"""Waits of a prompt after a failure, while it is refused and others are admitted, and while it is refused
repeatedly, so that others go first: the rate limiter decides when it is sent."""

TRIES, MAX_TRIES, BAD_LUCK = 5, 20, 1e-6
"""Failed requests after which a judgement is given up. If failures are frequent, more are allowed, up to the
second number, until the probability that all fail by chance is below the third."""

MAX_REFUSED_SECONDS = 60.0
"""A prompt that is refused while others are admitted is given up after MAX_TRIES requests and this time,
unless chance (BAD_LUCK) explains its refusals."""

OUTAGE_SECONDS, NEVER_ANSWERED_SECONDS = 120.0, 5.0
"""Seconds to wait for a provider that fails every request, if it answered before and if it never did."""

UNUSABLE_AFTER_ANSWER, UNUSABLE_BEFORE_ANSWER = 10, 1
"""Errors about the key, the account or the model after which it is turned off: since its last answer, or if
it has never answered. Then status 403, which a firewall may send for one text, needs two more."""


@dataclass(eq=False, slots=True)
class RetryState:
    """Failures of the requests for one prompt so far.

    Attributes:
        failed: Requests that failed.
        refused: Requests that were rate limited.
        refused_alone: Refusals since whose predecessor another request was answered.
        since: When the first request failed or was refused.
        last_refused: When the last one was refused.
    """

    failed: int = 0
    refused: int = 0
    refused_alone: int = 0
    since: float = math.inf
    last_refused: float = math.inf

    def __bool__(self) -> bool:
        return bool(self.failed or self.refused)

    def count(self, *, rate_limited: bool, now: float, answered: float | None) -> None:
        """Count a request that failed or was refused, given the time of the last answer to any prompt."""
        self.since = min(self.since, now)
        if not rate_limited:
            self.failed += 1
            return
        self.refused += 1
        self.refused_alone += answered is not None and answered > self.last_refused
        self.last_refused = now


@dataclass(eq=False, slots=True)
class InFlight:
    """A request under way and its hedge, if any; the first answer counts."""

    request: ModelRequest
    about: tuple[str, ...]
    outcome: "asyncio.Future[ModelResponse]"
    began: float | None = None
    attempts: "set[asyncio.Task[ModelResponse]]" = field(default_factory=set)
    requests: int = 0

    def ended(self, attempt: "asyncio.Task[ModelResponse]") -> None:
        """Take the outcome of an attempt; a failure is none while the other attempt is under way."""
        self.attempts.discard(attempt)
        if attempt.cancelled():
            return
        error = attempt.exception()
        if self.outcome.done():
            return
        if error is None:
            self.outcome.set_result(attempt.result())
        elif not self.attempts:
            self.outcome.set_exception(error)


class RequestScheduler:
    """Sends every request to one model at one address.

    Args:
        client: Sends one request.
        budget: Reserves the cost of a request before it is sent.
        settings: The suite's settings.
        name: The model's name in the suite.
        cache: Stores every response. Nothing is sent while too many of them are not yet durable.

    Attributes:
        name: The model's name in the suite.
        description: The model.
        parameters: What the server accepts of a request's parameters.
        limiter: Limits the requests in flight and their rate.
        asking: Number of requests without an outcome.
    """

    def __init__(
        self,
        client: Client,
        budget: Budget,
        settings: JudgeSettings,
        *,
        name: str = "",
        cache: ResponseCache | None = None,
    ) -> None:
        self.name, self.description = name, client.description
        self._client = client
        self._cache = cache or ResponseCache()
        self.parameters = Parameters(name, settings, client.description, self._cache)
        self._budget = budget
        self._timeout = settings.timeout
        self._time_limit = math.inf if settings.time_limit is None else settings.time_limit
        most = settings.concurrency or MAX_IN_FLIGHT
        self._max_pending = max(8, 2 * most)
        self.limiter = RateLimiter(most)
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + self._time_limit
        self._waiting: dict[Priority, deque[asyncio.Future[SentRequest]]] = {
            priority: deque() for priority in get_args(Priority)
        }
        self._timer: asyncio.TimerHandle | None = None
        self._fault: Exception | None = None
        self._in_flight: set[InFlight] = set()
        self._latencies: deque[float] = deque(maxlen=100)
        self._watch: asyncio.TimerHandle | None = None
        self._first_attempts = self._failed_first_attempts = 0
        self._answered = self._refused_before = 0
        self._began: float | None = None
        self._last_answer: float | None = None
        self.asking = 0
        self._refusing_since: float | None = None
        self._wait_until = self._round_until = self._logged_until = -math.inf
        self._waits = 0
        self._unusable = 0
        self._failing: set[RetryState] = set()
        self._off_until = 0.0
        self._off_reason = ""

    async def ask(
        self, request: ModelRequest, *, about: tuple[str, ...], sent: ModelRequest | None = None
    ) -> AskResult:
        """Send a request, again after failures, and without the parameters that the server refuses.

        Args:
            request: The request, with every parameter that the server may still refuse.
            about: Names of the dimensions that are judged.
            sent: The request with the parameters accepted so far, if it is known.

        Raises:
            GivenUp: If there is no response after all retries, or the budget does not allow another request.
        """
        state, requests = RetryState(), 0
        priority: Priority = "new"
        if not self.asking:
            self._refusing_since = None  # the last refusal may be long ago
        self.asking += 1
        try:
            while True:
                if (closed := self._closed_reason()) is not None:
                    raise GivenUp(closed)
                try:
                    async with self.parameters.turn():
                        sent = sent or self.parameters.applied(request)
                        in_flight = InFlight(sent, about, self._loop.create_future())
                        response = await self._send(in_flight, priority)
                        self.parameters.answered()
                except RequestError as failure:
                    requests += in_flight.requests
                    self._record_failure(failure, state)
                    if failure.refused is not None:
                        if self.parameters.refuse(failure, in_flight.request):
                            sent, requests = None, 0
                            continue
                        self.turn_off(f"{failure}; {failure.refused} cannot be left out")
                        raise GivenUp(str(failure), cause="unusable") from None
                    if failure.kind == "permanent":
                        closed = self._closed_reason()
                        raise GivenUp(str(failure), cause="failing" if closed else "unusable") from None
                    self._record_wait(failure)
                    rate_limited = failure.kind == "rate_limited"
                    state.count(rate_limited=rate_limited, now=self._loop.time(), answered=self._last_answer)
                    if self._exhausted(state, failure):
                        took = f" ({requests} requests)" if requests > 1 else ""
                        raise GivenUp(f"{failure}{self._beyond_time_limit(failure)}{took}") from None
                    pause = self._delay(failure, state)
                    log.debug("%s; asked again in %.2f s", failure, pause)
                    await asyncio.sleep(pause)
                    priority = "again" if state.refused < OUTAGE_FAILURES else "often"
                else:
                    self._first_attempts += not state
                    self._answered += 1
                    self._refused_before += state.refused
                    requests += in_flight.requests
                    left_out = self.parameters.refused
                    return AskResult(response=response, requests=requests, sent=sent, left_out=left_out)
        finally:
            self.asking -= 1
            self._failing.discard(state)

    async def close(self) -> None:
        """Close the connections. No request may follow."""
        for handle in (self._timer, self._watch):
            if handle is not None:
                handle.cancel()
        await self._client.close()

    async def _send(self, in_flight: InFlight, priority: Priority) -> ModelResponse:
        self._launch(in_flight, priority)
        self._in_flight.add(in_flight)
        if self._watch is None:
            self._watch = self._loop.call_later(HEDGE_CHECK_SECONDS, self._hedge_overdue)
        try:
            return await in_flight.outcome
        finally:
            self._in_flight.discard(in_flight)
            for attempt in in_flight.attempts:
                attempt.cancel()

    def _launch(self, in_flight: InFlight, priority: Priority) -> None:
        attempt = self._loop.create_task(self._attempt(in_flight, priority))
        in_flight.attempts.add(attempt)
        attempt.add_done_callback(in_flight.ended)

    async def _attempt(self, in_flight: InFlight, priority: Priority) -> ModelResponse:
        """Send one request: wait for its turn, reserve, send, settle, cache."""
        loop, request = self._loop, in_flight.request
        sent = await self._acquire(priority)
        ended: Ended = "failed"
        retry_after: float | None = None
        try:
            if (closed := self._closed_reason()) is not None:
                raise RequestError(closed, kind="permanent")
            if (parameter := self.parameters.refused_since(request)) is not None:
                why = f"{request.model}: {parameter} is refused"
                raise RequestError(why, kind="permanent", refused=parameter)
            reservation = await self._budget.reserve(request, about=in_flight.about)
            in_flight.requests += 1
            response, billed = None, True
            try:
                if in_flight.began is None:
                    in_flight.began = loop.time()
                async with asyncio.timeout_at(in_flight.began + self._timeout):
                    response = await self._client.send(request, lambda: self._went_out(sent))
                ended = "answered"
            except TimeoutError:
                ended = "timeout"
                why = f"{request.model} did not answer within {self._timeout:g} s"
                raise RequestError(why, kind="timeout", billed=True) from None
            except RequestError as failure:
                billed = failure.billed
                if failure.same_for_all is not False:
                    self._record_unusable(failure)  # before the next request is dispatched
                if failure.kind == "rate_limited":
                    ended, retry_after = "refused", failure.retry_after
                raise
            finally:
                cost = self._budget.settle(reservation, response, billed=billed)
        finally:
            self._finish(sent, ended, retry_after)
        response = msgspec.structs.replace(response, cost_usd=cost)
        self._cache.put(request.key, response)
        return response

    def _went_out(self, sent: SentRequest) -> None:
        """Note that a request has been written to its connection."""
        # The request itself, by whose connection this is called, goes on even if the limiter fails.
        with suppress(Exception), self._limiting():
            self.limiter.went_out(sent, self._loop.time())
            self._dispatch()

    def _finish(self, sent: SentRequest, ended: Ended, retry_after: float | None = None) -> None:
        now = self._loop.time()
        with self._limiting():
            self.limiter.ended(sent, ended, now, retry_after=retry_after)
        if ended == "refused":
            self._refusing_since = self._refusing_since or now
        elif ended == "answered":
            self._latencies.append(now - sent.time)
            self._last_answer = now
            self._refusing_since = None
            self._waits = self._unusable = 0
            self._failing.clear()
        self._dispatch()

    async def _acquire(self, priority: Priority) -> SentRequest:
        """Wait in a queue until a request may be sent."""
        if self._fault is not None:
            raise RuntimeError("the rate limiter failed") from self._fault
        turn: asyncio.Future[SentRequest] = self._loop.create_future()
        self._waiting[priority].append(turn)
        self._dispatch()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._finish(turn.result(), "failed")
            raise

    @contextmanager
    def _limiting(self) -> Iterator[None]:
        """Fail what waits, now and later, if the limiter fails: nothing else would end the waiting."""
        try:
            yield
        except Exception as error:
            self._fault = fault = error
            self._fail_waiting(lambda: fault)
            raise

    def _dispatch(self) -> None:
        """Release queued requests for as long as the limiter allows."""
        with self._limiting():
            while (queue := self._next_queue()) is not None:
                if queue[0].done():
                    queue.popleft()
                    continue
                now = self._loop.time()
                wait = self._wait(now)
                if wait is None:
                    return
                if wait > 0:
                    if self._timer is not None:
                        self._timer.cancel()
                    self._timer = self._loop.call_later(wait, self._dispatch)
                    return
                if self._began is None:
                    self._began = now
                sent = self.limiter.sent(now)
                queue.popleft().set_result(sent)

    def _wait(self, now: float) -> float | None:
        """Seconds until the next turn; None if a request in flight must end first."""
        if now >= self._deadline:
            return 0.0  # nothing is sent any more, and all that wait are told so
        if self._in_outage() and self.limiter.in_flight:
            return None  # during an outage one request at a time probes the provider
        if self._cache.pending() >= self._max_pending:
            return CACHE_WAIT_SECONDS
        wait = self.limiter.ready(now)
        return None if wait is None else min(wait, self._deadline - now)

    def _next_queue(self) -> deque[asyncio.Future[SentRequest]] | None:
        often, again, new = self._waiting.values()
        # Probe an outage with new prompts: those that failed before may fail by themselves.
        if self._in_outage():
            return new or again or often or None
        if self.limiter.refused_in_row >= OUTAGE_FAILURES:
            return again or new or often or None
        return often or again or new or None

    def _hedge_overdue(self) -> None:
        """Send overdue requests a second time, so that a hanging connection does not cost a whole timeout."""
        self._watch = None
        if not self._in_flight:
            return
        self._watch = self._loop.call_later(HEDGE_CHECK_SECONDS, self._hedge_overdue)
        if len(self._latencies) < 10:
            return
        usual = sorted(self._latencies)[int(0.95 * (len(self._latencies) - 1))]
        limit = max(HEDGE_AFTER * usual, min(HEDGE_SECONDS, HEDGE_SHARE * self._timeout))
        now = self._loop.time()
        overdue = [
            in_flight
            for in_flight in self._in_flight
            if in_flight.began is not None and len(in_flight.attempts) == 1 and now - in_flight.began > limit
        ]
        if len(overdue) <= max(2, MAX_HEDGED_SHARE * self.limiter.in_flight):
            for in_flight in overdue:
                if in_flight.requests == 1:
                    self._launch(in_flight, "again")

    def _record_failure(self, failure: RequestError, state: RetryState) -> None:
        """Count the first failure of a prompt: bad luck, a bad prompt and an outage are told apart by it."""
        self._first_attempts += not state
        if not state and failure.kind in ("provider_error", "connection", "timeout"):
            self._failed_first_attempts += 1
            self._failing.add(state)
        if self._in_outage():
            self.limiter.pause_until(self._loop.time() + OUTAGE_PROBE_SECONDS)
            self._dispatch()

    def _in_outage(self) -> bool:
        return len(self._failing) >= max(OUTAGE_FAILURES, self.limiter.in_flight)

    def _closed_reason(self) -> str | None:
        """Return why no request may be sent now, or None."""
        now = self._loop.time()
        if now < self._off_until:
            return self._off_reason
        if now >= self._deadline:
            return f"{self.name}: the {self._time_limit:,g} s of judge.time_limit are over"
        return None

    def _record_unusable(self, failure: RequestError) -> None:
        """Turn a model off whose key, account or name is wrong."""
        self._unusable += 1
        enough = UNUSABLE_AFTER_ANSWER if self._answered else UNUSABLE_BEFORE_ANSWER
        if failure.same_for_all is None and not self._answered:
            enough += 2
        if self._unusable >= enough:
            self.turn_off(str(failure))

    def turn_off(self, why: str) -> None:
        """Send no further request to this model."""
        if self._off_until != math.inf:
            self._off_until, self._off_reason = math.inf, why
            log.warning("the judge %s is off: %s", self.name, why)
            self._fail_waiting(self._off)

    def _record_wait(self, failure: RequestError) -> None:
        """Record the Retry-After of a failure, and log it if it is long."""
        asked, now = failure.retry_after or 0.0, self._loop.time()
        if not asked or now + asked > self._deadline:
            return
        if now >= self._round_until:
            self._waits += 1
            self._round_until = now + asked
        self._wait_until = max(self._wait_until, now + asked)
        if asked >= LOGGED_WAIT_SECONDS and now >= self._logged_until:
            self._logged_until = now + asked
            line = "the judge %s: the provider asks to wait %s s (Retry-After): waiting until %s"
            log.warning(line, self.name, f"{asked:,.0f}", _clock(asked))

    def _beyond_time_limit(self, failure: RequestError) -> str:
        """Describe a Retry-After that ends after the time limit; empty if it does not."""
        asked = failure.retry_after or 0.0
        if self._loop.time() + asked <= self._deadline:
            return ""
        limit = f"the {self._time_limit:,g} s of judge.time_limit"
        return f"; it asks to wait {asked:,.0f} s (Retry-After), until {_clock(asked)}, beyond {limit}"

    def _outage_start(self, since: float) -> float:
        """Return when an outage began: after a Retry-After, unless there were too many without an answer."""
        return max(since, self._wait_until) if self._waits <= TRIES else since

    def _exhausted(self, state: RetryState, failure: RequestError) -> bool:
        now = self._loop.time()
        if now + (failure.retry_after or 0) > self._deadline:
            return True
        if self._in_outage():
            most = OUTAGE_SECONDS if self._last_answer else NEVER_ANSWERED_SECONDS
            if now - self._outage_start(self._last_answer or self._began or now) < most:
                return False
            self._give_up(failure, now)
            return True
        share = 0.0
        if self._first_attempts >= MIN_FOR_FAILURE_SHARE:
            share = self._failed_first_attempts / self._first_attempts
        if state.failed >= min(MAX_TRIES, max(TRIES, _luck_limit(share))):
            return True
        # Everything has been refused for longer than requests in flight take to be answered.
        waited = now - self._outage_start(self._refusing_since or now)
        if self._refusing_since and waited > max(OUTAGE_SECONDS, self._timeout):
            self._give_up(failure, now)
            return True
        # This prompt is always refused while others are admitted.
        often = state.refused >= MAX_TRIES and self._excess_refusals(state) >= 0
        return often and now - state.since > MAX_REFUSED_SECONDS

    def _excess_refusals(self, state: RetryState) -> int:
        """Refusals of one prompt, while others are admitted, beyond those that bad luck explains."""
        share = (self._refused_before + 1) / (self._refused_before + self._answered + 2)
        return state.refused_alone - _luck_limit(share)

    def _give_up(self, failure: RequestError, now: float) -> None:
        """Turn the model off for a while and fail everything that waits, so that the run can end."""
        if now >= self._off_until:
            self._off_until = max(now + 30, self._wait_until)  # requests waiting for a Retry-After fail, too
            self._off_reason = f"{failure}; the judge is unavailable"
            log.warning("judge unavailable, giving up for now: %s", failure)
            self._fail_waiting(self._off)

    def _off(self) -> RequestError:
        return RequestError(self._off_reason, kind="permanent")

    def _fail_waiting(self, error: Callable[[], Exception]) -> None:
        """Fail every queued request."""
        for queue in self._waiting.values():
            while queue:
                if not (turn := queue.popleft()).done():
                    turn.set_exception(error())

    def _delay(self, failure: RequestError, state: RetryState) -> float:
        """Seconds until a request is queued again; the limiter decides when it is sent."""
        backoff, tries = FAILED, state.failed
        if failure.kind == "rate_limited":
            beyond = self._excess_refusals(state)
            backoff, tries = (REFUSED_ALONE, beyond) if beyond > 0 else (REFUSED, state.refused - 1)
        own = backoff.seconds(tries) if tries else 0.0
        own *= random.uniform(0.5, 1)  # noqa: S311 - jitter
        return max(own, failure.retry_after or 0.0)


def _luck_limit(share: float) -> int:
    """Failures in a row that chance does not explain, given the share of all requests that fail."""
    return math.ceil(math.log(BAD_LUCK) / math.log(min(max(share, 0.02), 0.9)))


def _clock(seconds: float) -> str:
    """Local time of day after some seconds from now, with the date if it is not today."""
    now = datetime.now(UTC).astimezone()
    then = now + timedelta(seconds=min(seconds, 1e9))
    return f"{then:%H:%M:%S}" if then.date() == now.date() else f"{then:%Y-%m-%d %H:%M:%S}"
