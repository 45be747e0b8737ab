"""Queues over live traffic: a monitor's samples, or the traces behind an alert."""

from hashlib import blake2b

import msgspec

from trivium.errors import InputError, suggest
from trivium.labels.joining import scores_in
from trivium.labels.queue import LabelQueues
from trivium.store.labels import LabelQueue, QueueSettings
from trivium.store.live_alerts import alert_of, marks_of, monitors_of
from trivium.store.live_samples import sample_places
from trivium.store.store import Store

MOST_DAYS = 7
"""Days of a monitor's samples that a queue asks about, if nothing was deployed since."""

LONGEST_ALERT_SECONDS = 7 * 86_400.0
"""How far before an alert its traces may lie."""

MOST_BEHIND = 50
"""Samples behind an alert that a queue asks about."""


def queue_of_monitor(
    queues: LabelQueues,
    monitor: str,
    dimension: str,
    *,
    by: str,
    since: float,
    settings: QueueSettings | None = None,
    seed: int | None = None,
) -> LabelQueue:
    """Make a queue for the samples of a monitor since a Unix time.

    Where rules sampled some traffic more often than other, samples of that traffic are thinned out at random
    in proportion to their weights. So all traffic is equally likely to be in the queue, and its mean is one
    of traffic rather than of samples.

    Raises:
        InputError: If there is no such monitor, or no sample with such a score.
    """
    rows = sample_places(queues.store, monitor, since=since)
    if not rows:
        known = monitors_of(queues.store)
        raise InputError(f'monitor "{monitor}"', f"has no sample in that time.{suggest(monitor, known)}")
    largest = max(row.weight for row in rows)
    chosen = [(row.run, row.position) for row in rows if _share(row.trace) < row.weight / largest]
    return _made(queues, monitor, dimension, chosen, settings or QueueSettings(), by=by, seed=seed)


def dimensions_of_monitor(store: Store, monitor: str) -> list[str]:
    """What a queue of a monitor's samples may ask about: the scores of the newest day that has some."""
    newest = store.live_runs(monitor)[:MOST_DAYS]
    return next(filter(None, (scores_in(store, run) for run in newest)), [])


def since_deployment(store: Store, monitor: str, now: float) -> float:
    """The last deployment or reset of a monitor, but at most ``MOST_DAYS`` ago."""
    marks = marks_of(store, monitor, limit=1)
    return max([now - MOST_DAYS * 86_400, *(mark.time for mark in marks)])


def queue_of_alert(
    queues: LabelQueues, number: int, dimension: str, *, by: str, settings: QueueSettings | None = None
) -> LabelQueue:
    """Make a queue for the worst samples before an alert.

    Its labels count as volunteered: they explain the alert, and never enter an estimate.

    Raises:
        InputError: If there is no such alert, or no sample behind it.
    """
    alert = alert_of(queues.store, number)
    if alert is None:
        raise InputError("", f"there is no alert {number}: `trivium monitor alerts` lists them")
    since = alert.opened - LONGEST_ALERT_SECONDS
    worst = sample_places(queues.store, alert.monitor, since=since, until=alert.opened, worst=MOST_BEHIND)
    chosen = [(row.run, row.position) for row in worst]
    if not chosen:
        raise InputError(f"alert {number}", "has no sample behind it that is still stored")
    why = f"its items are the worst samples before alert {number}, chosen because they look bad"
    asked = msgspec.structs.replace(settings or QueueSettings(), volunteered=why)
    return _made(queues, alert.monitor, dimension, chosen, asked, by=by, seed=None)


def _share(trace: str) -> float:
    """A number in [0, 1) that is the same for a trace each time, and unlike the one that sampled it."""
    digest = blake2b(trace.encode(), digest_size=8, person=b"labels").digest()
    return int.from_bytes(digest, "big") / 2**64


def _made(
    queues: LabelQueues,
    monitor: str,
    dimension: str,
    chosen: list[tuple[int, int]],
    settings: QueueSettings,
    *,
    by: str,
    seed: int | None,
) -> LabelQueue:
    wanted = {run for run, _ in chosen}
    runs = [run for run in queues.store.live_runs(monitor) if run.number in wanted]
    return queues.add(runs, dimension, settings, by=by, monitor=monitor, seed=seed, only=chosen)
