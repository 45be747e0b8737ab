"""``tv.Monitor``: watches an agent from inside the application that calls it."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

import msgspec

from trivium.agents.failures import reason
from trivium.any_object import encode, plain_text
from trivium.monitor.interaction import Recorded, begun, interaction_of_trace
from trivium.monitor.monitored import monitored
from trivium.monitor.recorder import Recorder
from trivium.monitor.sampling import draw
from trivium.monitor.tracing import listen, stop_listening
from trivium.monitor.watching import watched
from trivium.store.connection import DEFAULT_URL
from trivium.store.live_samples import RecentSamples, Sample
from trivium.store.store import Store
from trivium.suites.monitor_settings import StatusThresholds
from trivium.suites.suite import Suite
from trivium.traces.trace import Trace

log = logging.getLogger(__name__)


class About(TypedDict, total=False):
    """The searchable fields of an interaction, as keywords of :meth:`Monitor.record`."""

    tags: Sequence[str]
    session: str | None
    version: str | None
    metadata: Mapping[str, Any] | None


class Technical(TypedDict, total=False):
    """Further keywords of :class:`Monitor`."""

    queue: int
    clock: Callable[[], float]


class Monitor:
    """Records interactions with an agent, and scores a sample of them as a suite's tests are scored.

    :meth:`record` takes some microseconds of the caller's time: a thread decides, writes and scores. It
    raises nothing, and what cannot be kept is counted by reason (``trivium monitor status``). Several
    processes may use one store; a forked child has a thread of its own.

    Args:
        suite: The suite, its file, or its keys; it needs no cases.
        sample_rate: Probability that an interaction is sampled, instead of the suite's (default: 0.01).
        store: The store, or its URL.
        score: Whether this process scores the samples; otherwise ``trivium serve`` on the same store does.
        service: Name of the service.
        version: Version of the application; figures are computed by it.
        settings: Further keys of ``monitor`` that replace the suite's, such as ``rules``.
        **technical: ``queue``, the interactions that may wait to be written (10,000 by default): further ones
            are dropped and counted; ``clock``, which gives the Unix time.

    Raises:
        InputError: If the suite or a setting is wrong.
        StoreError: If the store cannot be opened.

    Examples:
        >>> monitor = Monitor({"name": "support"}, sample_rate=1, store=folder / "store.db")
        >>> monitor.record(input="Where is my order?", output="It comes tomorrow.", tags=["delivery"])
        >>> monitor.close()
    """

    def __init__(
        self,
        suite: Suite | str | Path | Mapping[str, Any],
        *,
        sample_rate: float | None = None,
        store: str | Path | Store = DEFAULT_URL,
        score: bool = True,
        service: str | None = None,
        version: str | None = None,
        settings: Mapping[str, Any] | None = None,
        **technical: Unpack[Technical],
    ) -> None:
        rate = {} if sample_rate is None else {"sample_rate": sample_rate}
        self._monitored = monitored(suite, monitor={**(settings or {}), **rate})
        self._url = store.url if isinstance(store, Store) else str(store)
        Store(self._url).close()  # what is wrong with it is raised here, not in a thread
        self._service = service
        self._version = version
        self._listens = False
        own = self._monitored.monitor
        self._settings = own
        self._highest_rate = max([own.sample_rate, *(rule.rate for rule in own.rules)])
        self._recorder = Recorder(self._monitored, self._url, score=score, **technical)
        self._clock = self._recorder.clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(
        self,
        *,
        input: Any = None,  # noqa: A002 - the field's name
        output: Any = None,
        error: BaseException | str | None = None,
        seconds: float | None = None,
        trace: Trace | None = None,
        trace_id: str | None = None,
        **about: Unpack[About],
    ) -> None:
        """Record an interaction. Returns at once and raises nothing.

        Values are copied before it returns. Only what may be sampled is copied at all.

        Args:
            input: What was asked: any value; what JSON lacks becomes text.
            output: What came back.
            error: Why the agent failed.
            seconds: How long it took.
            trace: What the agent did.
            trace_id: Id of the trace, which decides whether it is sampled; a random one by default.
            **about: ``tags``; ``session``, the session or conversation that it belongs to; ``version`` of the
                application, instead of the monitor's; ``metadata``, further data.
        """
        if unknown := about.keys() - About.__annotations__.keys():
            raise TypeError(f"record() has no argument {min(unknown)!r}")
        try:
            id_ = os.urandom(16).hex() if trace_id is None else plain_text(trace_id)
            if self._highest_rate < 1 and draw(id_, self._settings.salt) >= self._highest_rate:
                self._recorder.put_unsampled()
                return
            recorded = Recorded(
                time=begun(trace, self._clock() - (seconds or 0.0)),
                input=msgspec.Raw(encode(input)),
                output=msgspec.Raw(encode(output)),
                error=None
                if error is None
                else reason(error)
                if isinstance(error, BaseException)
                else plain_text(error),
                seconds=seconds,
                trace=trace,
                service=self._service,
                **self._copied(**about),
            )
            self._recorder.put(id_, recorded)
        except Exception:  # an application is never broken by its monitor
            log.warning("an interaction could not be recorded", exc_info=True)
            self._recorder.count("dropped", "unrecordable")

    def _copied(
        self,
        tags: Sequence[str] = (),
        session: str | None = None,
        version: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the searchable fields of an interaction, as its record holds them."""
        return {
            "tags": tuple(map(plain_text, tags)),
            "version": version or self._version,
            "session": None if session is None else plain_text(session),
            "metadata": {} if metadata is None else msgspec.json.decode(encode(dict(metadata))),
        }

    def watch(
        self,
        function: Callable[..., Any] | None = None,
        *,
        tags: Sequence[str] = (),
        session: str | None = None,
    ) -> Any:
        """Decorate a function, coroutine function or generator function: each call is an interaction.

        What ``trivium.trace`` records meanwhile is its trace. Calls while Trivium evaluates the function are
        not recorded. The input is the argument, or a mapping of the arguments if there are several; the
        output of a generator is what it yielded.

        Args:
            function: The function.
            tags: Tags of its interactions.
            session: Name of the argument that names the session.

        Examples:
            >>> monitor = Monitor({"name": "support"}, store=folder / "store.db")
            >>> @monitor.watch(tags=["chat"])
            ... def answer(question: str) -> str:
            ...     return "It comes tomorrow."
            >>> answer("Where is my order?")
            'It comes tomorrow.'
            >>> monitor.close()
        """

        def decorate(decorated: Callable[..., Any]) -> Callable[..., Any]:
            return watched(decorated, self.record, tags=tags, session=session)

        return decorate if function is None else decorate(function)

    def listen(self, provider: Any = None) -> None:
        """Record every trace of this process as an interaction, once its root span has ended.

        This covers traces that ``trivium.trace`` records outside of evaluations and watched functions (and no
        longer writes to files) and, given a provider, those that OpenTelemetry records.

        Args:
            provider: Tracer provider of OpenTelemetry, whose spans are recorded too.
        """
        self._listens = True
        listen(self._put_trace, self._drop, max_spans=self._settings.max_spans, provider=provider)

    def _put_trace(self, trace_id: str, make: Callable[[], Trace]) -> None:
        if self._highest_rate < 1 and draw(trace_id, self._settings.salt) >= self._highest_rate:
            self._recorder.put_unsampled()
            return
        now = self._clock()
        self._recorder.put(trace_id, lambda: self._recorded(trace_id, make(), now))

    def _drop(self, reason: str) -> None:
        self._recorder.count("dropped", reason)

    def _recorded(self, trace_id: str, trace: Trace, now: float) -> Recorded:
        made = interaction_of_trace(trace, trace_id=trace_id, now=now)
        version, service = made.version or self._version, made.service or self._service
        return msgspec.structs.replace(made, version=version, service=service)

    def sample_and_evaluate(
        self, query: Any, output: Any, *, trace: Trace | None = None, tags: Sequence[str] = ()
    ) -> dict[str, Any] | None:
        """Sample an interaction, and score it before returning if it is sampled.

        Args:
            query: What was asked.
            output: What came back.
            trace: What the agent did.
            tags: Its tags.

        Returns:
            None if it is not sampled, or could not be scored (``trivium monitor why`` says why); else
            ``query`` and ``output_preview`` (first 200 characters), ``score`` in [0, 1] or None, ``passed``,
            ``timestamp`` (Unix time) and ``probability``.

        Raises:
            StoreError: If the store fails.
        """
        recorded = Recorded(
            time=begun(trace, self._clock()),
            input=msgspec.Raw(encode(query)),
            output=msgspec.Raw(encode(output)),
            trace=trace,
            tags=tuple(map(plain_text, tags)),
            version=self._version,
            service=self._service,
        )
        sample = self._recorder.score_now(os.urandom(16).hex(), recorded)
        return None if sample is None else _as_dict(sample)

    def get_metrics(self) -> dict[str, Any]:
        """The figures of the window, weighted by inverse probability, of every process that uses the store.

        Returns:
            ``{"status": "insufficient_data"}`` without samples that passed or failed; else ``sample_count``,
            ``pass_rate``, ``average_score`` (None without scores) and ``status``: critical, warning or
            healthy.

        Raises:
            StoreError: If the store cannot be read.
        """
        from trivium.monitor.status import window_samples
        from trivium.monitor.windows import COMPOSITE, PASS_RATE, Columns, status_of_mean

        settings = self._settings
        with Store(self._url) as store:
            recent = RecentSamples(store, self._monitored.name)
            samples, _ = window_samples(recent, settings, self._clock())
        columns = Columns(samples, (PASS_RATE, COMPOSITE))
        pass_rate, number = columns.plain_mean(PASS_RATE)
        if pass_rate is None:
            return {"status": "insufficient_data"}
        return {
            "sample_count": number,
            "pass_rate": pass_rate,
            "average_score": columns.plain_mean(COMPOSITE)[0],
            "status": status_of_mean(pass_rate, settings.figures.get(PASS_RATE, StatusThresholds())),
        }

    def flush(self, timeout: float | None = None, *, scored: bool = False) -> bool:
        """Wait until everything recorded so far is in the store.

        Args:
            timeout: Longest time to wait, in seconds; None for no limit.
            scored: Also wait until no sample of this monitor waits to be scored, here or elsewhere.

        Returns:
            Whether it is.

        Raises:
            StoreError: If the store cannot be read.
        """
        return self._recorder.flush(timeout, scored=scored)

    def close(self, timeout: float | None = None) -> None:
        """Write what was recorded, and end the threads; samples that wait are scored later, or by others.

        Args:
            timeout: Longest time to wait for a store that fails, in seconds; None for no limit.
        """
        if self._listens:
            stop_listening()
        self._recorder.close(timeout)


def _as_dict(sample: Sample) -> dict[str, Any]:
    return {
        "query": sample.query,
        "output_preview": sample.output,
        "score": sample.score,
        "passed": sample.passed,
        "timestamp": sample.time,
        "probability": sample.probability,
    }
