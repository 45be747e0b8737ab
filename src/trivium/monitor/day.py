"""The run of one day, into which a monitor's samples are scored; its judges spend the day's budget."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from threading import Lock
from typing import Any

import msgspec

from trivium.agents.attempt import Attempt
from trivium.errors import StoreError
from trivium.metrics.judge.budget.prices import Prices
from trivium.metrics.metric import Metric
from trivium.metrics.registry import build_metrics, default_metrics
from trivium.metrics.scoring import Scores, score_attempts
from trivium.monitor.monitored import Monitored
from trivium.runs.costs import AttachedJudges, cost_of
from trivium.runs.provenance import provenance
from trivium.runs.summarize import summarise
from trivium.store.records import Provenance, RunRecord
from trivium.store.store import Store
from trivium.suites.monitor_settings import without_channel_secrets
from trivium.suites.settings import Settings

log = logging.getLogger(__name__)

DAY = 86_400


class Day:
    """The monitor's run of one day, with metrics whose judges spend the day's budget.

    Args:
        store: The store.
        monitored: The monitor.
        number: Days since 1970, in UTC.
    """

    def __init__(self, store: Store, monitored: Monitored, number: int) -> None:
        self.number = number
        self._store = store
        self._lock = Lock()
        self._prices = Prices((), {})
        self.settings = with_day_budget(monitored)
        self.metrics = build_metrics(default_metrics(self.settings), self.settings)
        self.fingerprints = fingerprints(self.metrics, self.settings)
        self.run = live_run(store, monitored.name, number, self.settings, self.metrics)
        finish_days_before(store, monitored.name, self.run)
        self._judges = AttachedJudges(self.run, store, self.metrics)

    def score(self, cases: Sequence[Any]) -> list[Scores]:
        """Score attempts.

        Raises:
            Stopped: If the scorer is stopped meanwhile.
        """
        with self._lock:
            return score_attempts(self.metrics, cases)

    def cost(self, attempt: Attempt) -> float | None:
        """What an interaction cost, in US dollars; None unless all of it is known."""
        cost, complete = cost_of(attempt, self._prices)
        return cost if complete else None

    def abandon(self) -> None:
        """Stop scoring; what judges are being asked is not waited for."""
        for metric in self.metrics:
            metric.close()

    def close(self) -> None:
        """Close the metrics and their judges."""
        self.abandon()
        self._judges.allow_eviction()
        self._judges.close()


def with_day_budget(monitored: Monitored) -> Settings:
    """Settings whose judges may cost ``budget_usd_per_day``, or less if their own budget is less.

    ``judge.time_limit`` is of a run of tests: a monitor's judges are asked all day.
    """
    settings, budget = monitored.settings, monitored.monitor.budget_usd_per_day
    if settings.judge is None:
        return settings
    budgets = [each for each in (settings.judge.budget_usd, budget) if each is not None]
    judge = msgspec.structs.replace(settings.judge, budget_usd=min(budgets, default=None), time_limit=None)
    return msgspec.structs.replace(settings, judge=judge)


def fingerprints(metrics: Sequence[Metric], settings: Settings) -> dict[str, str]:
    """Digest of the scorer of each metric: its name and version, and the settings that may change a score."""
    bare = msgspec.structs.replace(settings, monitor=None, gates={}, metrics=None)
    common = msgspec.json.encode(bare)
    return {
        metric.name: blake2b(
            f"{metric.name}\0{metric.version}\0".encode() + common, digest_size=8
        ).hexdigest()
        for metric in metrics
    }


def live_run(
    store: Store, monitor: str, day: int, settings: Settings, metrics: Sequence[Metric]
) -> RunRecord:
    """Return the monitor's run of a day; the first scorer that needs it makes it."""
    digest = blake2b(monitor.encode(errors="replace"), digest_size=4).hexdigest()
    id_ = f"live-{datetime.fromtimestamp(day * DAY, UTC):%Y%m%d}-{digest}"
    found = [run for run in store.live_runs(monitor) if run.id == id_]
    if found:
        return found[0]
    try:
        return store.new_run(
            id=id_,
            suite_name=monitor,
            suite=id_,
            kind="live",
            settings=msgspec.structs.replace(settings, monitor=without_channel_secrets(settings.monitor)),
            provenance=provenance(
                list(metrics), settings, source="production traffic", own=Provenance(notes=(SAMPLE_NOTE,))
            ),
        )
    except StoreError:
        return store.run(id_)  # another process has just made it


SAMPLE_NOTE = (
    "these are samples of production, some taken more often than others; for figures of all traffic: "
    "trivium monitor status (the probability of each: trivium export --what attempts)"
)


def finish_days_before(store: Store, monitor: str, today: RunRecord) -> None:
    """Finish the monitor's runs of earlier days."""
    for run in store.live_runs(monitor):
        if run.state == "running" and run.id < today.id:
            try:
                summary = msgspec.to_builtins(summarise(store, run))
            except Exception as error:  # a new day is scored all the same
                log.warning("run %s cannot be summarised: %s", run.id, error)
                continue
            store.finish(run, "done", summary=summary)
