"""Says whether a status is sure, and whether a figure is worse than before the last deployment.

For each figure that has thresholds, over all traffic and for each value of a facet, a confidence sequence and
a change detector (:mod:`trivium.trust`) run from the last deployment or reset on. They bet on each sample
once, in the order in which samples were scored. Their state is plain data, kept in the store with the number
of the last sample: after a restart, or on another server, they go on with the same figures.

**Sessions.** Interactions of one session are not independent, so a session is one bet: the weighted mean of
its samples, with the sum of their weights, once nothing has come for ``SESSION_QUIET_SECONDS`` or it has
lasted ``SESSION_LONGEST_SECONDS``.

**How the error is shared.** A monitor watches many means. ``alpha`` is the probability that any of its
statuses is ever wrongly called sure, from one deployment or reset to the next. Half of it goes to the figures
over all traffic, in equal parts; the other half to the facets, ``MOST_FACETS`` for each figure, in equal
parts. A value of a facet is watched from its ``FEWEST_SAMPLES``-th sample on, or at once if it has a
reference, so that values which appear once take nobody's place. Values beyond that number are not watched,
and counted. The mean time between false alarms of a figure is shared in the same way; each figure has its
own. A mean that recovered starts anew, with its share of the error.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from trivium.errors import TrustError
from trivium.monitor.windows import value_of
from trivium.store.live_samples import Sample
from trivium.suites.monitor_settings import MonitorSettings
from trivium.trust.change_detection import ChangeDetector
from trivium.trust.level_sequence import LevelSequence
from trivium.trust.weighted_means import reference_level
from trivium.values import resolved

MOST_FACETS = 50
"""Values of facets that are watched for each figure."""

FEWEST_SAMPLES = 5
"""Samples of a facet's value from which on it is watched."""

MOST_SEEN = 1000
"""Values of facets whose samples are counted; beyond it those that are not watched yet are forgotten."""

GRID = 200
"""Steps of [0, 1] of a confidence sequence; its state takes 4 kB at first."""

SESSION_QUIET_SECONDS = 1800.0
SESSION_LONGEST_SECONDS = 14_400.0
"""A session whose turns are further apart is taken for several, which are not independent of one another.
With 300 seconds, and turns 6 minutes apart, sure was wrong in 9 of 60 simulated lives; with 1800, in one."""

MOST_SESSIONS = 2000
"""Sessions that may be open; beyond it the oldest are closed."""

DAY = 86_400.0
"""Also the most that the time between two bets counts for a change detector: clocks may jump."""

Key = tuple[str, str, str]
"""Figure, facet and value; facet and value are empty for all traffic."""


@resolved
class _Session(msgspec.Struct, kw_only=True):
    """A session of which more samples may come.

    Attributes:
        first: When its first sample was scored, Unix time.
        last: When its last sample was scored, Unix time.
        sums: Sum of weight x value, and sum of weights, by key.
    """

    first: float
    last: float
    sums: dict[str, list[float]] = {}


class Level:
    """The sequential evidence on one mean.

    Args:
        sequence: Its confidence sequence.
        detector: Its change detector; None without a reference.
        began: Unix time from which the first bet's time counts.

    Attributes:
        began: Unix time of the last bet, from which the next one counts.
        alarm: Whether the detector has given an alarm since the last deployment or reset.
        sure: Unix time at which it became sure that the mean was below a threshold; None before.
    """

    def __init__(self, *, sequence: LevelSequence, detector: ChangeDetector | None, began: float) -> None:
        self.sequence = sequence
        self.detector = detector
        self.began = began
        self.alarm = False
        self.sure: float | None = None

    def bet(self, value: float, weight: float, time: float) -> None:
        """Bet on a value at a Unix time, which rises except where a clock is set back."""
        self.sequence.update(value, weight)
        if self.detector is not None:
            elapsed = min(max(0.0, time - self.began), DAY) / DAY
            self.alarm = self.detector.update(value, elapsed, weight) or self.alarm
        set_back = time < self.began - SESSION_LONGEST_SECONDS
        self.began = time if set_back else max(self.began, time)
        if self.sure is None and any(map(self.sequence.sure_below, self.sequence.thresholds)):
            self.sure = time


class Levels:
    """The sequences and detectors of one monitor since the last deployment or reset.

    Definition: docs/definitions/monitoring.md#sure.

    Args:
        settings: Settings of the monitor.
        since: Unix time of the last deployment or reset, or of the beginning.
        mark: Number of the mark; 0 at the beginning.
        references: Lower confidence bounds of the means before the last deployment, by key.
    """

    def __init__(
        self,
        settings: MonitorSettings,
        *,
        since: float,
        mark: int = 0,
        references: Mapping[Key, float] | None = None,
    ) -> None:
        self.settings = settings
        self.since = since
        self.mark = mark
        self.references = dict(references or {})
        self._levels: dict[Key, Level] = {}
        self._sessions: dict[str, _Session] = {}
        self._seen: dict[tuple[str, str], int] = {}
        self._figures = tuple(settings.figures)

    # Updating

    def add(self, samples: Iterable[Sample], now: float) -> None:
        """Bet on samples that were not seen before, in order, and on the sessions that have ended.

        Args:
            samples: The samples, in the order in which they were scored.
            now: Unix time.
        """
        for sample in samples:
            self._close_sessions(sample.scored)
            self._see(sample)
            sums = {
                key: (sample.weight * (value_of(sample, key[0]) or 0.0), sample.weight)
                for key in keys_of(sample, self._figures, self.settings.by)
                if self._admitted(key)
            }
            if sample.session:
                self._add_to_session(sample.session, sums, sample.scored)
            else:
                self._bet(sums, sample.scored)
        self._close_sessions(now)

    def restart(self, key: Key, now: float) -> None:
        """Forget what a mean did so far, as after an alert that is resolved; it keeps its place."""
        if key in self._levels:
            self._levels[key] = self._new(key, now)
        for session in self._sessions.values():
            session.sums.pop(key_text(key), None)

    def _see(self, sample: Sample) -> None:
        """Count a sample for its values of facets."""
        for facet in self.settings.by:
            for value in sample.facets.get(facet, ()):
                self._seen[facet, value] = self._seen.get((facet, value), 0) + 1
        if len(self._seen) > MOST_SEEN:
            self._seen = {part: n for part, n in self._seen.items() if n >= FEWEST_SAMPLES}
            for part in list(self._seen)[MOST_SEEN:]:
                del self._seen[part]

    def _admitted(self, key: Key) -> bool:
        """Whether a mean is watched if there is room for it."""
        _, facet, value = key
        return (
            not facet
            or key in self._levels
            or key in self.references
            or self._seen.get((facet, value), 0) >= FEWEST_SAMPLES
        )

    def _add_to_session(self, name: str, sums: Mapping[Key, Sequence[float]], time: float) -> None:
        if name not in self._sessions:
            if len(self._sessions) >= MOST_SESSIONS:
                self._close(min(self._sessions, key=lambda each: self._sessions[each].first))
            self._sessions[name] = _Session(first=time, last=time, sums={})
        session = self._sessions[name]
        session.last = max(session.last, time)
        for key, (weighted, weight) in sums.items():
            total = session.sums.setdefault(key_text(key), [0.0, 0.0])
            total[0] += weighted
            total[1] += weight

    def _close_sessions(self, now: float) -> None:
        ended = [
            name
            for name, session in self._sessions.items()
            if now >= min(session.last + SESSION_QUIET_SECONDS, session.first + SESSION_LONGEST_SECONDS)
        ]
        for name in ended:
            self._close(name)

    def _close(self, name: str) -> None:
        session = self._sessions.pop(name)
        self._bet({key_of(text): sums for text, sums in session.sums.items()}, session.last)

    def _bet(self, sums: Mapping[Key, Sequence[float]], time: float) -> None:
        for key, (weighted, weight) in sums.items():
            level = self._level(key, time)
            if level is None:
                continue
            level.bet(min(1.0, weighted / weight), weight, time)

    def _level(self, key: Key, time: float) -> Level | None:
        """The level of a key; a new one if there is room for it."""
        if key in self._levels:
            return self._levels[key]
        figure, facet, _ = key
        if figure not in self.settings.figures:
            return None  # of a session that began under other settings
        if facet and sum(1 for each in self._levels if each[0] == figure and each[1]) >= MOST_FACETS:
            return None
        self._levels[key] = self._new(key, self.since or time)
        return self._levels[key]

    def _new(self, key: Key, began: float) -> Level:
        figure, facet, _ = key
        share = 2 * len(self._figures) if not facet else 2 * len(self._figures) * MOST_FACETS
        thresholds = self.settings.figures[figure]
        named = (thresholds.critical, thresholds.warning)
        return Level(
            sequence=LevelSequence(
                self.settings.alpha / share, GRID, sorted({each for each in named if 0 < each < 1})
            ),
            detector=self._detector(key),
            began=began,
        )

    def _detector(self, key: Key) -> ChangeDetector | None:
        reference = self.references.get(key)
        change = self.settings.change
        if reference is None or not 0 < reference - change.tolerance < 1:
            return None
        share = 2 * MOST_FACETS if key[1] else 2
        return ChangeDetector(reference, change.tolerance, change.false_alarm_days * share)

    # Reading

    def sure_below(self, key: Key, threshold: float) -> bool:
        """Whether a mean was surely not at or above a threshold all the time."""
        level = self._levels.get(key)
        return level is not None and level.sequence.n > 0 and level.sequence.sure_below(threshold)

    def changed(self, key: Key) -> bool:
        """Whether a mean is worse than before the last deployment by more than the tolerance."""
        level = self._levels.get(key)
        return level is not None and level.alarm

    def level(self, key: Key) -> Level | None:
        """Return the stored state of a mean; None if the mean is not watched."""
        return self._levels.get(key)

    @property
    def left_out(self) -> set[tuple[str, str]]:
        """Values of facets that are not watched, because there are too many."""
        watched = {key[1:] for key in self._levels}
        return {part for part, n in self._seen.items() if n >= FEWEST_SAMPLES and part not in watched}

    @property
    def keys(self) -> tuple[Key, ...]:
        """The means that are watched."""
        return tuple(self._levels)

    # Storing

    def to_state(self) -> dict[str, object]:
        """What :meth:`from_state` needs, as plain values that JSON can hold."""
        return {
            "since": self.since,
            "mark": self.mark,
            "references": [[*key, value] for key, value in self.references.items()],
            "seen": [[*part, number] for part, number in self._seen.items()],
            "sessions": {name: msgspec.to_builtins(each) for name, each in self._sessions.items()},
            "levels": [
                {
                    "key": key,
                    "sequence": level.sequence.to_state(),
                    "detector": None if level.detector is None else level.detector.to_state(),
                    "began": level.began,
                    "alarm": level.alarm,
                    "sure": level.sure,
                }
                for key, level in self._levels.items()
            ],
        }

    @classmethod
    def from_state(cls, settings: MonitorSettings, state: Mapping[str, Any]) -> "Levels":
        """Restore the state that :meth:`to_state` returned.

        A mean whose settings (alpha, thresholds, tolerance) have changed since is reset.
        """
        references = {(row[0], row[1], row[2]): row[3] for row in state["references"]}
        levels = cls(settings, since=state["since"], mark=state["mark"], references=references)
        levels._seen = {(row[0], row[1]): row[2] for row in state.get("seen", ())}
        levels._sessions = msgspec.convert(state["sessions"], dict[str, _Session])
        for row in state["levels"]:
            key = (row["key"][0], row["key"][1], row["key"][2])
            if key[0] not in levels._figures or (key[1] and key[1] not in settings.by):
                continue
            fresh = levels._level(key, row["began"])
            if fresh is None:
                continue
            try:
                sequence = LevelSequence.from_state(row["sequence"])
                detector = None if row["detector"] is None else ChangeDetector.from_state(row["detector"])
            except TrustError:
                continue  # written by another version
            fresh.began = row["began"]
            if _same_sequence(sequence, fresh.sequence):
                fresh.sequence, fresh.sure = sequence, row.get("sure")
            if _same_detector(detector, fresh.detector):
                fresh.detector, fresh.alarm = detector, row["alarm"]
        return levels


def references_of(samples: Sequence[Sample], settings: MonitorSettings) -> dict[Key, float]:
    """Lower confidence bounds of the means of a period, for those with enough samples.

    Args:
        samples: The samples of the period before a deployment.
        settings: Settings of the monitor.
    """
    groups: dict[Key, list[Sample]] = {}
    figures = tuple(settings.figures)
    for sample in samples:
        for key in keys_of(sample, figures, settings.by):
            groups.setdefault(key, []).append(sample)
    found: dict[Key, float] = {}
    numbers: Counter[str] = Counter()
    for key, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        if len(members) < settings.change.min_samples:
            continue
        if key[1]:
            numbers[key[0]] += 1
            if numbers[key[0]] > MOST_FACETS:
                continue
        bound = _reference(members, key, settings, len(figures))
        if bound is not None:
            found[key] = bound
    return found


def _reference(members: Sequence[Sample], key: Key, settings: MonitorSettings, figures: int) -> float | None:
    codes: dict[str, int] = {}
    clusters = [codes.setdefault(each.session or f"\0{each.trace}", len(codes)) for each in members]
    share = 2 * figures * (MOST_FACETS if key[1] else 1)
    return reference_level(
        [value_of(each, key[0]) or 0.0 for each in members],
        [each.probability for each in members],
        alpha=min(settings.alpha, 0.4) / share,
        groups=clusters,
        smallest=min(each.probability * each.weight for each in members),
    )


def keys_of(sample: Sample, figures: Iterable[str], facets: Iterable[str]) -> list[Key]:
    """The means that a sample counts for."""
    places = [("", ""), *((facet, value) for facet in facets for value in sample.facets.get(facet, ()))]
    return [
        (figure, facet, value)
        for figure in figures
        if value_of(sample, figure) is not None
        for facet, value in places
    ]


def _same_sequence(old: LevelSequence, new: LevelSequence) -> bool:
    return (old.alpha, old.grid, set(old.thresholds)) == (new.alpha, new.grid, set(new.thresholds))


def _same_detector(old: ChangeDetector | None, new: ChangeDetector | None) -> bool:
    if old is None or new is None:
        return old is new
    fields = ("reference", "tolerance", "mean_time_between_false_alarms")
    return all(getattr(old, name) == getattr(new, name) for name in fields)


def key_text(key: Key) -> str:
    """Write a key as one text."""
    return "\0".join(key)


def key_of(text: str) -> Key:
    """Read a key that :func:`key_text` wrote."""
    figure, facet, value = text.split("\0", 2)
    return figure, facet, value
