"""Scores samples with the metrics of a suite, each once, into the monitor's run of the day.

If a judge fails in a way that may be temporary, the sample is retried later, as often as any job. After that,
or at once if the day's budget is used up, it is stored with the scores of the other metrics and counted as
``unjudged`` by cause.
"""

import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from trivium.agents.attempt import Attempt
from trivium.errors import StoreError
from trivium.metrics.evaluation import Evaluation, evaluation, is_unavailable
from trivium.metrics.metric import Score, Stopped
from trivium.metrics.scoring import Scores
from trivium.monitor.day import DAY, Day
from trivium.monitor.interaction import Interaction, interaction_of
from trivium.monitor.loop import Loop
from trivium.monitor.monitored import Monitored
from trivium.store.live_jobs import LEASE_SECONDS, MOST_TRIES, Job, LiveJobs
from trivium.store.live_samples import Scored, save_scored
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store
from trivium.suites.settings import Settings

log = logging.getLogger(__name__)

JOBS_AT_ONCE = 32

LOOK_SECONDS = 1.0
"""Time between two looks for jobs when none waits."""

PAUSE_SECONDS = 10.0
"""Time after which the store is tried again."""

FAILED = "error"
"""Cause of a judgement that is missing because something failed that should not, such as the store."""


class Scorer(Loop):
    """Scores the samples of one monitor in a background thread.

    Several scorers, in several processes, may score one monitor on one store. The run of a day is finished
    when the first sample of the next day is scored.

    Args:
        store: The store.
        monitored: The monitor.
        clock: Returns the Unix time.
    """

    def __init__(self, store: Store, monitored: Monitored, *, clock: Callable[[], float] = time.time) -> None:
        self.monitored = monitored
        self._store = store
        self._jobs = LiveJobs(store)
        self._traces = LiveTraces(store)
        self._clock = clock
        self._owner = f"{os.getpid()}:{secrets.token_hex(8)}"
        self._day: Day | None = None
        super().__init__(
            f"trivium-scorer-{monitored.name}",
            self._score_and_wait,
            seconds=LOOK_SECONDS,
            first=0.0,
            pause=PAUSE_SECONDS,
            failing=f"{monitored.name}: samples cannot be scored now",
        )

    def score_once(self, now: float) -> int:
        """Score the jobs that are due, at most ``JOBS_AT_ONCE``.

        Args:
            now: Unix time.

        Returns:
            Number of jobs that were taken; there may be more if it is ``JOBS_AT_ONCE``.

        Raises:
            StoreError: If the store fails.
        """
        monitor = self.monitored
        self._jobs.drop_oldest(monitor.name, backlog=monitor.monitor.backlog, now=now)
        jobs = self._jobs.lease(monitor.name, owner=self._owner, now=now, limit=JOBS_AT_ONCE)
        if jobs:
            renewing = Loop(  # judges may take long
                "trivium-leases",
                lambda: self._jobs.renew(jobs, owner=self._owner, now=self._clock()),
                seconds=LEASE_SECONDS / 4,
                failing=f"{monitor.name}: leases cannot be renewed now",
            )
            renewing.start()
            try:
                self._score(jobs, now)
            except StoreError:
                self._forget_day()
                raise
            finally:
                renewing.stop()
        return len(jobs)

    def score_all(self, now: float) -> int:
        """Score all jobs that are due; returns their number."""
        number = 0
        while taken := self.score_once(now):
            number += taken
        return number

    def score_trace(self, trace: str, now: float) -> None:
        """Score the jobs of one trace before all others.

        Raises:
            StoreError: If the store fails.
        """
        name = self.monitored.name
        jobs = self._jobs.lease(name, owner=self._owner, now=now, limit=JOBS_AT_ONCE, trace=trace)
        if jobs:
            self._score(jobs, now)

    def stop(self) -> None:
        """Abandon what is being scored, and end the thread; others, or a restart, score the rest."""
        self._stopped.set()
        day = self._day
        if day is not None:
            day.abandon()
        super().stop()
        self.close()

    def close(self) -> None:
        """Close the judges; what they were paid is in the store."""
        if self._day is not None:
            self._day.close()
            self._day = None

    def _forget_day(self) -> None:
        """Close the judges; the next sample opens them again."""
        day, self._day = self._day, None
        if day is not None:
            try:
                day.close()
            except StoreError as error:
                log.warning("%s: the costs of judges are not all recorded: %s", self.monitored.name, error)

    def _score_and_wait(self) -> float:
        """Score some jobs; returns how long to wait, which is not at all while there are more."""
        return 0.0 if self.score_once(self._clock()) else LOOK_SECONDS

    def _score(self, jobs: Sequence[Job], now: float) -> None:
        try:
            day = self._today(now)
            found = [(job, self._interaction(job, now)) for job in jobs]
        except BaseException:
            self._jobs.give_back(jobs, now=now)
            raise
        pairs = [(job, interaction) for job, interaction in found if interaction is not None]
        if pairs:
            self._score_together(day, pairs, now)

    def _score_together(self, day: Day, pairs: Sequence[tuple[Job, Interaction]], now: float) -> None:
        """Score and store interactions together or, if that fails, one by one."""
        try:
            scored = self._scored(day, pairs)
            again = [each for each in scored if self._may_be_judged_later(each)]
            later = {each.job.number for each in again}
            save_scored(self._store, day.run, [each for each in scored if each.job.number not in later], now)
            for each in again:
                why = reason_of(each.evaluation.scores) or ""
                self._jobs.retry(each.job, now=now, reason=f"a judge did not answer: {why}"[:500])
            if again:
                self._forget_day()  # a model that was turned off, or a ledger that failed, stays so
        except Stopped:
            self._jobs.give_back([job for job, _ in pairs], now=now)
        except Exception as error:  # what is scored may be anything
            if len(pairs) > 1:
                for pair in pairs:
                    self._score_together(day, [pair], now)
            else:
                self._retry(pairs[0][0], error, now)

    @staticmethod
    def _may_be_judged_later(scored: Scored) -> bool:
        return scored.unjudged in {"failing", FAILED} and scored.job.tries < MOST_TRIES

    def _interaction(self, job: Job, now: float) -> Interaction | None:
        """The interaction of a job; None if it cannot be scored, or its trace has a newer job."""
        if any(
            each.monitor == job.monitor and each.version > job.version
            for each in self._jobs.of_trace(job.trace)
        ):
            self._jobs.supersede(job, now=now)
            return None
        try:
            found = self._traces.found(job.trace)
            if found is not None:
                return interaction_of(found)
        except StoreError:
            raise
        except Exception as error:  # what an application recorded may be anything
            self._retry(job, error, now)
            return None
        self._jobs.retry(job, now=now, reason="the store no longer holds its trace")
        return None

    def _retry(self, job: Job, error: Exception, now: float) -> None:
        log.warning("trace %s cannot be scored: %s", job.trace, error)
        self._jobs.retry(job, now=now, reason=f"{type(error).__name__}: {error}"[:500])

    def _scored(self, day: Day, pairs: Sequence[tuple[Job, Interaction]]) -> list[Scored]:
        settings = day.settings
        limit = settings.limits.output_bytes
        cases = [(interaction.case, interaction.attempt(limit=limit)) for _, interaction in pairs]
        scores = day.score(cases)
        return [
            Scored(
                job=job,
                case=case,
                attempt=attempt,
                evaluation=_evaluation(interaction, attempt, each, settings),
                time=interaction.time,
                failed=interaction.failed or attempt.failed,
                confidence=confidence_of(each),
                session=interaction.session,
                facets=interaction.facets,
                fingerprints=day.fingerprints,
                cost_usd=day.cost(attempt),
                unjudged=unjudged(each),
            )
            for (job, interaction), (case, attempt), each in zip(pairs, cases, scores, strict=True)
        ]

    def _today(self, now: float) -> Day:
        """The run of the day, in UTC; the day before is finished."""
        number = int(now // DAY)
        if self._day is None or self._day.number != number:
            self.close()
            self._day = Day(self._store, self.monitored, number)
        return self._day


def _evaluation(interaction: Interaction, attempt: Attempt, scores: Scores, settings: Settings) -> Evaluation:
    """The evaluation of an interaction; one whose trace lacks its root has not passed, whatever it scores."""
    made = evaluation(attempt, scores, settings)
    unknown = made.passed is True and interaction.without_root
    return msgspec.structs.replace(made, passed=None) if unknown else made


def confidence_of(scores: Scores) -> float | None:
    """Mean confidence that judges state, in [0, 1] (1 to 5 in their answers); None without one."""
    stated = [
        (signals["verbalized_confidence"] - 1) / 4
        for score in scores.values()
        if score.tier == "judge"
        and isinstance(signals := (score.detail or {}).get("signals"), dict)
        and isinstance(signals.get("verbalized_confidence"), int | float)
    ]
    return sum(stated) / len(stated) if stated else None


def unjudged(scores: Scores) -> str | None:
    """Why a judge did not answer; None if all did. Of several causes the one that may pass."""
    causes: set[str | None] = {
        (score.detail or {}).get("unjudged", FAILED if score.status == "error" else None)
        for score in scores.values()
        if score.tier == "judge" and is_unavailable(score)
    }
    ranked = ("failing", FAILED, "budget", "cut", "unusable", "unavailable")
    return next((cause for cause in ranked if cause in causes), None)


def reason_of(scores: Mapping[str, Score]) -> str | None:
    """The reason of the first judgement that is missing."""
    missing = (each for each in scores.values() if each.tier == "judge" and is_unavailable(each))
    return next((each.reason for each in missing), None)
