"""Replays recorded traffic through the whole chain, in its own time: what would have alerted, and when."""

import tempfile
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from trivium.monitor.alerting.delivery import deliverers
from trivium.monitor.alerting.messages import Message
from trivium.monitor.interaction import Interaction, interaction_of_trace
from trivium.monitor.monitored import Monitored
from trivium.monitor.sampling import Sampler, recorded_trace
from trivium.monitor.scorer import Scorer
from trivium.monitor.status import MonitorStatus, status_of
from trivium.monitor.trials import Trial, trials
from trivium.monitor.watcher import Watcher
from trivium.monitor.windows import figures_of
from trivium.store.live_samples import samples_of
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store
from trivium.traces.outcome import started
from trivium.traces.trace import Trace

LOOKS = 200
"""Looks at the traffic, at equal distances in its time, unless another number is asked for."""

BEGIN = 1_767_225_600.0
"""When traffic without times begins: 2026-01-01, UTC."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a replay.

    Attributes:
        traces: Number of traces.
        samples: Number of samples that were scored.
        begin: Unix time at which the traffic begins.
        end: Unix time at which it ends.
        spread: Whether the traces state no times and were spread evenly.
        messages: The messages that would have been sent, in order.
        trials: What other thresholds would have done.
        status: The status at the end.
        sent: Number of messages that were sent; 0 unless that was asked for.
    """

    traces: int
    samples: int
    begin: float
    end: float
    spread: bool
    messages: tuple[Message, ...]
    trials: tuple[Trial, ...]
    status: MonitorStatus
    sent: int = 0


def replay(
    monitored: Monitored,
    traces: Sequence[Trace],
    *,
    hours: float = 24.0,
    looks: int = LOOKS,
    send: bool = False,
    progress: Callable[[int], object] = lambda _: None,
) -> Replayed:
    """Sample, score and watch recorded traces as if they came now, in a store of its own.

    Args:
        monitored: The monitor.
        traces: The traces, in the order in which they came if they state no times.
        hours: Length of the traffic, if any trace states no time.
        looks: How often to look, at equal distances in the traffic's time.
        send: Send the messages to the monitor's channels, at the end.
        progress: Called with the number of traces that have been replayed.
    """
    timed, spread = _timed(traces, hours)
    begin = timed[0][0] if timed else BEGIN
    end = (timed[-1][0] if timed else BEGIN) + 1.0
    now = begin
    steps = [float(step) for step in np.linspace(begin, end, looks + 1)[1:]]
    messages: list[Message] = []
    with tempfile.TemporaryDirectory(prefix="trivium-replay-") as folder:
        url = f"sqlite:///{Path(folder) / 'replay.db'}"
        with Store(url) as store, Scorer(store, monitored, clock=lambda: now) as scorer:
            live = LiveTraces(store)
            sampler = Sampler(monitored.name, monitored.monitor, store, clock=lambda: now)
            watcher = Watcher(store, [monitored], clock=lambda: now)
            done = 0
            for step in steps:
                number = bisect_right(timed, step, key=lambda each: each[0])
                recorded = []
                for time, interaction in timed[done:number]:
                    now = time
                    recorded.append(recorded_trace(interaction, [sampler]))
                now = step
                if recorded:
                    live.record(recorded, now)
                    scorer.score_all(now)
                done = number
                messages += watcher.look(now)
                progress(done)
            samples = samples_of(store, monitored.name, figures=figures_of(monitored.monitor))
            status = status_of(store, monitored.name, monitored.monitor, now=now)
            sent = sum(each.deliver(now) for each in deliverers(store, [monitored])) if send else 0
    return Replayed(
        traces=len(timed),
        samples=len(samples),
        begin=begin,
        end=end,
        spread=spread,
        messages=tuple(messages),
        trials=trials(samples, monitored.monitor, steps, begin=begin),
        status=status,
        sent=sent,
    )


def _timed(traces: Sequence[Trace], hours: float) -> tuple[list[tuple[float, Interaction]], bool]:
    """The interactions of traces with their times, oldest first; whether they were spread evenly."""
    stated = [started(trace) for trace in traces]
    spread = any(time is None for time in stated)
    step = hours * 3600 / max(1, len(traces))
    used: set[str] = set()
    timed = []
    for place, (trace, time) in enumerate(zip(traces, stated, strict=True)):
        name = trace.trace_id or f"trace-{place}"
        if name in used:
            name = f"{name}-{place}"
        used.add(name)
        when = BEGIN + place * step if spread or time is None else time
        interaction = interaction_of_trace(trace, trace_id=name[:64], now=when)
        timed.append((when, msgspec.structs.replace(interaction, time=when)))
    timed.sort(key=lambda each: each[0])
    return timed, spread
