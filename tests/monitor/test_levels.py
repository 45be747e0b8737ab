"""Sure statuses and changes: rarely wrong, and the same after a restart."""

import json

import numpy as np
import pytest

from tests.monitor.samples import BEGIN, sample
from trivium.monitor.levels import (
    DAY,
    FEWEST_SAMPLES,
    MOST_FACETS,
    MOST_SEEN,
    SESSION_LONGEST_SECONDS,
    SESSION_QUIET_SECONDS,
    Levels,
    references_of,
)
from trivium.suites.monitor_settings import ChangeSettings, MonitorSettings, StatusThresholds
from trivium.trust.level_sequence import LevelSequence

WHOLE = ("pass_rate", "", "")


def levels_of(samples, settings=None, **options):
    levels = Levels(settings or MonitorSettings(), since=BEGIN, **options)
    levels.add(samples, BEGIN + 1e7)
    return levels


def test_a_low_level_becomes_sure():
    levels = levels_of([sample(n, n % 2 == 0) for n in range(300)])
    assert levels.sure_below(WHOLE, 0.85)
    assert levels.sure_below(WHOLE, 0.70)


def test_a_fine_level_is_never_surely_low():
    assert not levels_of([sample(n, n % 20 != 0) for n in range(1000)]).sure_below(WHOLE, 0.85)


def test_a_sure_status_of_any_figure_or_facet_is_wrong_in_at_most_5_percent_of_lives():
    """Lives of 100 samples at the threshold, with eleven means watched each: the error is shared."""
    rng = np.random.default_rng(7)
    settings = MonitorSettings(
        by=("agent",), figures={"pass_rate": StatusThresholds(warning=0.5, critical=0.4)}, alpha=0.5
    )
    wrong = 0
    lives = 40
    for _ in range(lives):
        verdicts, agents = rng.random(100) < 0.5, rng.integers(0, 10, 100)
        samples = [
            sample(n, bool(ok), agent=f"a{a}") for n, (ok, a) in enumerate(zip(verdicts, agents, strict=True))
        ]
        levels = levels_of(samples, settings)
        wrong += any(levels.sure_below(key, 0.5) for key in levels.keys if key[0] == "pass_rate")
    assert wrong / lives <= settings.alpha


def test_the_error_of_all_means_adds_up_to_at_most_alpha():
    names = [f"v{n}" for n in range(2 * MOST_FACETS)]
    levels = levels_of([sample(n, tag=name) for n, name in enumerate(FEWEST_SAMPLES * names)])
    shares = [levels.level(key).sequence.alpha for key in levels.keys]
    assert sum(shares) <= MonitorSettings().alpha * (1 + 1e-9)
    assert len(levels.left_out) == MOST_FACETS
    assert levels.level(("pass_rate", "tag", names[-1])) is None


def test_a_session_is_one_bet_with_the_mean_of_its_samples():
    samples = [sample(n, n == 0, session="s", time=BEGIN + n) for n in range(4)]
    levels = Levels(MonitorSettings(), since=BEGIN)
    levels.add(samples, BEGIN + 4 + SESSION_QUIET_SECONDS)
    mine = levels.level(WHOLE).sequence
    same = LevelSequence(mine.alpha, mine.grid, mine.thresholds)
    same.update(0.25, weight=4.0)
    assert mine.n == 1
    assert mine.to_state() == same.to_state()


def test_turns_a_quarter_of_an_hour_apart_are_one_bet():
    """Whoever reads an answer takes a while; two bets on one session would not be independent."""
    samples = [sample(n, session="s", time=BEGIN + 900 * n) for n in range(4)]
    assert levels_of(samples).level(WHOLE).sequence.n == 1


def test_a_session_is_open_until_it_is_quiet():
    levels = Levels(MonitorSettings(), since=BEGIN)
    levels.add([sample(1, session="s", time=BEGIN)], BEGIN + SESSION_QUIET_SECONDS - 1)
    assert levels.level(WHOLE) is None
    levels.add([], BEGIN + SESSION_QUIET_SECONDS)
    assert levels.level(WHOLE).sequence.n == 1


def test_a_session_that_never_ends_still_counts():
    step = SESSION_QUIET_SECONDS / 2
    number = int(2.5 * SESSION_LONGEST_SECONDS / step)
    levels = Levels(MonitorSettings(), since=BEGIN)
    for n in range(number):
        levels.add([sample(n, session="s", time=BEGIN + n * step)], BEGIN + n * step)
    assert levels.level(WHOLE).sequence.n == 2


def test_restarts_change_nothing():
    rng = np.random.default_rng(3)
    samples = [
        sample(n, bool(ok), agent=f"a{n % 3}", session=f"s{n // 2}" if n % 5 == 0 else None)
        for n, ok in enumerate(rng.random(120) < 0.7)
    ]
    references = {WHOLE: 0.9, ("pass_rate", "agent", "a1"): 0.8}
    settings = MonitorSettings()
    once = levels_of(samples, settings, references=references)
    again = Levels(settings, since=BEGIN, references=references)
    for first in range(0, 120, 17):
        part = samples[first : first + 17]
        again.add(part, part[-1].scored)
        again = Levels.from_state(settings, json.loads(json.dumps(again.to_state())))
    again.add([], BEGIN + 1e7)
    assert again.to_state() == once.to_state()


def test_other_thresholds_start_anew():
    levels = levels_of([sample(n, passed=False) for n in range(100)])
    other = MonitorSettings(figures={"pass_rate": StatusThresholds(warning=0.5, critical=0.2)})
    assert Levels.from_state(other, levels.to_state()).level(WHOLE).sequence.n == 0


def before(rate: float, number: int = 400) -> list:
    rng = np.random.default_rng(11)
    return [sample(n, bool(ok), agent="a") for n, ok in enumerate(rng.random(number) < rate)]


def test_a_fall_after_a_deployment_is_a_change():
    settings = MonitorSettings()
    references = references_of(before(0.95), settings)
    assert 0.85 < references[WHOLE] < 0.95
    rng = np.random.default_rng(5)
    fallen = [sample(n, bool(ok), agent="a") for n, ok in enumerate(rng.random(400) < 0.7)]
    assert levels_of(fallen, settings, references=references).changed(WHOLE)
    same = [sample(n, bool(ok), agent="a") for n, ok in enumerate(rng.random(400) < 0.95)]
    assert not levels_of(same, settings, references=references).changed(WHOLE)


def test_a_tolerated_fall_is_no_change():
    rng = np.random.default_rng(5)
    fallen = [sample(n, bool(ok)) for n, ok in enumerate(rng.random(400) < 0.7)]
    settings = MonitorSettings(change=ChangeSettings(tolerance=0.3))
    references = references_of(before(0.95), settings)
    assert not levels_of(fallen, settings, references=references).changed(WHOLE)


def test_a_reference_needs_enough_samples():
    settings = MonitorSettings(change=ChangeSettings(min_samples=100))
    assert references_of(before(0.9, 99), settings) == {}
    assert WHOLE in references_of(before(0.9, 100), settings)


def test_rarer_false_alarms_take_longer_to_notice_a_fall():
    rng = np.random.default_rng(9)
    fallen = [bool(ok) for ok in rng.random(3000) < 0.75]

    def noticed(days: float) -> int:
        settings = MonitorSettings(change=ChangeSettings(false_alarm_days=days))
        levels = Levels(settings, since=BEGIN, references={WHOLE: 0.9})
        for n, ok in enumerate(fallen):
            levels.add([sample(n, ok)], BEGIN + 60 * n)
            if levels.changed(WHOLE):
                return n
        return len(fallen)

    assert 5 < noticed(1) < noticed(10_000) < 1000


@pytest.mark.parametrize("figure", ["pass_rate", "composite"])
def test_a_figure_that_recovered_starts_anew(figure):
    thresholds = {"pass_rate": StatusThresholds(), "composite": StatusThresholds()}
    settings = MonitorSettings(figures=thresholds)
    levels = levels_of([sample(n, passed=False) for n in range(50)], settings)
    levels.restart((figure, "", ""), BEGIN + 1e7)
    assert not levels.sure_below((figure, "", ""), 0.7)
    other = "composite" if figure == "pass_rate" else "pass_rate"
    assert levels.sure_below((other, "", ""), 0.7)


def test_a_mean_that_recovered_forgets_the_open_sessions_and_no_other_mean():
    failed = [sample(n, passed=False, agent="a") for n in range(50)]
    key = ("pass_rate", "agent", "a")
    levels = Levels(MonitorSettings(), since=BEGIN)
    end = failed[-1].scored
    levels.add([*failed, sample(50, passed=False, agent="a", session="s", time=end)], end)
    levels.restart(key, end)
    assert levels.sure_below(WHOLE, 0.7)
    levels.add([], end + DAY)
    assert (levels.level(key).sequence.n, levels.level(WHOLE).sequence.n) == (0, 51)


def test_values_that_appear_once_take_no_place():
    """Neither among the means that are watched nor, in the long run, in the state."""
    rare = [sample(n, tag=f"once {n}") for n in range(MOST_SEEN + MOST_FACETS)]
    often = [sample(len(rare) + n, passed=False, tag="often") for n in range(40)]
    levels = levels_of(rare + often)
    assert {key for key in levels.keys if key[1]} == {("pass_rate", "tag", "often")}
    assert levels.sure_below(("pass_rate", "tag", "often"), 0.7)
    assert levels.left_out == set()
    assert len(levels.to_state()["seen"]) <= MOST_SEEN


def test_a_value_with_a_reference_is_watched_from_its_first_sample():
    key = ("pass_rate", "tag", "known")
    levels = levels_of([sample(1, tag="known")], references={key: 0.9})
    assert levels.level(key).sequence.n == 1


def test_a_pause_of_a_year_is_no_evidence_of_a_fall():
    levels = Levels(MonitorSettings(), since=BEGIN, references={WHOLE: 0.9})
    for time in (BEGIN, BEGIN + 365 * DAY):
        levels.add([sample(1, time=time)], time)
    assert not levels.changed(WHOLE)
    assert levels.level(WHOLE).detector.elapsed == 1.0


def test_a_clock_that_was_ahead_for_a_moment_does_not_blind_the_watch():
    rng = np.random.default_rng(2)
    levels = Levels(MonitorSettings(), since=BEGIN, references={WHOLE: 0.9})
    levels.add([sample(0, time=BEGIN + 30 * DAY)], BEGIN + 30 * DAY)
    for n, ok in enumerate(rng.random(3000) < 0.95):
        levels.add([sample(n, bool(ok))], BEGIN + 60 * n)
    assert levels.level(WHOLE).detector.elapsed == pytest.approx(1 + 3000 / 1440, abs=0.01)
    for n, ok in enumerate(rng.random(600) < 0.6, 3000):
        levels.add([sample(n, bool(ok))], BEGIN + 60 * n)
    assert levels.changed(WHOLE)


def test_only_figures_with_thresholds_are_watched():
    levels = levels_of([sample(n) for n in range(5)])
    assert {figure for figure, _, _ in levels.keys} == {"pass_rate"}


def test_too_many_open_sessions_close_the_oldest(monkeypatch):
    monkeypatch.setattr("trivium.monitor.levels.MOST_SESSIONS", 3)
    levels = Levels(MonitorSettings(), since=BEGIN)
    levels.add([sample(n, session=f"s{n}", time=BEGIN + n) for n in range(5)], BEGIN + 5)
    assert levels.level(WHOLE).sequence.n == 2
