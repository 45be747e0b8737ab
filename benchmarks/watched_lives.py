"""How often the whole watcher is wrong, and how soon it alerts, over simulated weeks of production.

    python -m benchmarks.monitor_alerts watcher [lives, default 100]

Each life has a store of its own. 400 interactions a day come in sessions of one to six (2.4 on average, an
intra-session correlation of 0.3, minutes between two turns) with three agents of unequal traffic, two tools
and a tag. Half of the failures are errors; a rule samples every error, the rest is sampled with probability
0.25: some 110 samples a day. Two figures have thresholds: the pass rate (0.85 and 0.70), and ``quality``, a
graded score (0.80 and 0.65). The sampler decides, traces and jobs are recorded, leased and stored as in
production; only the scores are drawn instead of computed, and a sample counts as scored a minute after its
interaction. The watcher keeps its state in the store and looks every six hours, or every two where a delay is
measured. The lives are shared among the cores.

* healthy: four weeks at a pass rate of 0.92 and a quality of 0.87, with a deployment after two. Any alert is
  false.
* at the thresholds: four weeks whose means are exactly at the warning thresholds, for each agent, tool and
  tag, the hardest case. Any status that is ever called sure is wrong.
* noticed, in every fifth life: with the deployment the pass rate of all agents falls by 5, 10 or 20 points
  (the quality by half of that); the delay until the first message about quality.
* sure, likewise: a pass rate 5, 10, 20 points under the warning threshold from the beginning on; the delay
  until the status of all traffic is sure.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.sizes import sized
from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Composite, Evaluation
from trivium.metrics.metric import Score
from trivium.monitor.day import live_run
from trivium.monitor.interaction import Interaction, Recorded, encode_recorded
from trivium.monitor.levels import Levels
from trivium.monitor.monitored import Monitored
from trivium.monitor.sampling import Sampler
from trivium.monitor.status import STATE, watched_of
from trivium.monitor.watcher import Watcher
from trivium.store.live_alerts import add_mark, alerts_of, state_of
from trivium.store.live_jobs import Job, LiveJobs
from trivium.store.live_records import RecordedTrace
from trivium.store.live_samples import Scored, save_scored
from trivium.store.live_traces import LiveTraces
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.monitor_settings import MonitorSettings, SamplingRule, StatusThresholds
from trivium.suites.settings import Settings

DAY, HOUR = 86_400.0, 3600.0
BEGIN = 1_767_225_600.0
NAME = "watched"
LOOK = sized(6, 24) * HOUR
DAYS = sized(28, 2)
MARK = sized(14, 1)
"""Days after which a deployment is marked."""
SESSIONS = sized(167, 20)
"""Sessions a day."""
CORRELATION, TURN = 0.3, 4 * 60.0
"""Correlation of the outcomes of a session, and mean seconds between two turns."""
AGENTS, SHARES = ("billing", "sales", "travel"), (0.6, 0.3, 0.1)
TOOLS = {"billing": "refund", "sales": "search", "travel": "search"}
HEALTHY, QUALITY = 0.92, 0.87
WARNING, QUALITY_WARNING = 0.85, 0.80
DROPS = (0.05, 0.1, 0.2)
SPREAD = 20.0
"""Sum of the parameters of the beta distribution of a score: a standard deviation of some 0.08."""

SETTINGS = MonitorSettings(
    sample_rate=0.25,
    rules=(SamplingRule(errors=True, rate=1.0),),
    by=("agent", "tool", "tag"),
    figures={
        "pass_rate": StatusThresholds(warning=WARNING, critical=0.70),
        "quality": StatusThresholds(warning=QUALITY_WARNING, critical=0.65),
    },
)
MONITORED = Monitored(name=NAME, settings=Settings(monitor=SETTINGS))
WHOLE = ("pass_rate", "", "")


class Turn(msgspec.Struct):
    """An interaction with its scores."""

    interaction: Interaction
    agent: str
    tags: tuple[str, ...]
    passed: bool
    quality: float

    @property
    def facets(self) -> dict[str, tuple[str, ...]]:
        return {"agent": (self.agent,), "tool": (TOOLS[self.agent],), "tag": self.tags}


class Life:
    """One life of a monitor on a store of its own.

    Args:
        folder: Where the store is.
        seed: Draws the traffic.
        template: An empty store.
    """

    def __init__(self, folder: Path, seed: int, template: Path) -> None:
        self.file = folder / f"{seed}.db"
        shutil.copy(template, self.file)
        self.seed = seed
        self.now = BEGIN
        self._open()

    def _open(self) -> None:
        self.store = Store(f"sqlite:///{self.file}")
        self.run: RunRecord = self.store.live_runs(NAME)[0]
        self.sampler = Sampler(NAME, SETTINGS, self.store, clock=lambda: self.now)
        self.watcher = Watcher(self.store, [MONITORED])

    def twin(self, name: str) -> "Life":
        """A life that was the same up to now."""
        self.store.engine.dispose()  # what is in its journal goes into the file
        other = object.__new__(Life)
        other.file = self.file.with_name(f"{self.file.stem}-{name}.db")
        shutil.copy(self.file, other.file)
        other.seed, other.now = self.seed, self.now
        other._open()
        return other

    def close(self) -> None:
        self.store.close()
        for file in self.file.parent.glob(f"{self.file.name}*"):
            file.unlink()

    def live(
        self, days: float, rate: float, quality: float, *, step: float = LOOK
    ) -> Iterator[tuple[float, list[str]]]:
        """Live for some days; gives the time and the causes of the messages of each look."""
        begin = self.now
        rng = np.random.default_rng([self.seed, round(begin), round(1000 * rate)])
        turns = traffic(rng, begin, days, rate, quality)
        place = 0
        for look in range(1, round(days * DAY / step) + 1):
            end = begin + look * step
            first = place
            while place < len(turns) and turns[place].interaction.time < end:
                place += 1
            self.now = end
            self._record(turns[first:place])
            yield end, [message.cause for message in self.watcher.look(end)]

    def deploy(self) -> None:
        add_mark(self.store, NAME, now=self.now, version="2")

    def levels(self) -> Levels:
        """What is sure now."""
        return Levels.from_state(SETTINGS, watched_of(state_of(self.store, NAME, STATE)).levels)

    def ever_sure(self) -> bool:
        """Whether any mean is surely below a threshold now."""
        levels = self.levels()
        return any(level is not None and level.sure is not None for level in map(levels.level, levels.keys))

    def _record(self, turns: list[Turn]) -> None:
        """Sample, record, lease and store interactions."""
        recorded, taken = [], {}
        for turn in turns:
            choice = self.sampler.decide(turn.interaction)
            if choice.sampled:
                fields = {name: getattr(turn.interaction, name) for name in Recorded.__struct_fields__}
                body = encode_recorded(Recorded(**fields))
                trace = turn.interaction.trace_id
                recorded.append(RecordedTrace(trace_id=trace, body=body, service=None, choices=(choice,)))
                taken[trace] = turn
        if not recorded:
            return
        LiveTraces(self.store).record(recorded, self.now)
        jobs = LiveJobs(self.store).lease(NAME, owner="life", now=self.now, limit=len(taken))
        save_scored(self.store, self.run, [scored(job, taken[job.trace]) for job in jobs], self.now)
        with self.store.engine.begin() as connection:  # as if each had been scored at once
            connection.exec_driver_sql(
                "UPDATE live_samples SET scored = time + 60 WHERE scored = ?", (self.now,)
            )


def scored(job: Job, turn: Turn) -> Scored:
    """What a scorer makes of an interaction."""
    value = Score(name="quality", tier="text", value=turn.quality)
    made = Evaluation(
        case=job.trace, repeat=0, scores={"quality": value}, composite=Composite(value=turn.quality),
        passed=turn.passed,
    )  # fmt: skip
    return Scored(
        job=job, case=turn.interaction.case, attempt=Attempt(case=job.trace, output=turn.interaction.output),
        evaluation=made, time=turn.interaction.time, failed=turn.interaction.error is not None,
        confidence=None, session=turn.interaction.session, facets=turn.facets,
        fingerprints={"quality": "drawn"},
    )  # fmt: skip


def traffic(rng: np.random.Generator, begin: float, days: float, rate: float, quality: float) -> list[Turn]:
    """The interactions of some days, in order; sessions end with them."""
    number = round(SESSIONS * days)
    room = (1 - CORRELATION) / CORRELATION
    starts = np.sort(rng.random(number)) * days * DAY
    lengths = np.minimum(rng.geometric(0.4, number), 6)
    agents = rng.choice(len(AGENTS), number, p=SHARES)
    tagged = rng.random(number) < 0.1
    rates = rng.beta(rate * room, (1 - rate) * room, number)
    levels = rng.beta(quality * SPREAD, (1 - quality) * SPREAD, number)
    turns = []
    for place in range(number):
        times = (
            begin + starts[place] + np.concatenate([[0], rng.exponential(TURN, lengths[place] - 1)]).cumsum()
        )
        agent, tags = AGENTS[agents[place]], ("vip",) if tagged[place] else ()
        for at in times.tolist():
            passed = bool(rng.random() < rates[place])
            error = "it failed" if not passed and rng.random() < 0.5 else None
            interaction = Interaction(
                trace_id=f"{rng.integers(1 << 62):032x}", time=min(at, begin + days * DAY - 1),
                input="question",
                output="answer", error=error, tags=tags, session=f"{begin:.0f}-{place}",
            )  # fmt: skip
            turns.append(Turn(interaction, agent, tags, passed, float(levels[place])))
    turns.sort(key=lambda each: each.interaction.time)
    return turns


def template(folder: Path) -> Path:
    """An empty store with a run for the samples."""
    file = folder / "empty.db"
    with Store(f"sqlite:///{file}") as store:
        live_run(store, NAME, int(BEGIN // DAY), MONITORED.settings, [])
    return file


class Lived(msgspec.Struct, kw_only=True):
    """What happened in the lives of one seed.

    Attributes:
        alerts: Alerts about quality in the healthy life.
        sure: Whether anything was called surely low there.
        wrong: Whether anything was called sure though every mean was at its threshold.
        noticed: Days from a drop until the first message about it; without those whose alert fired before.
        until_sure: Days until it was sure that the pass rate was under its threshold.
        seconds: What the healthy life took.
    """

    alerts: int = 0
    sure: bool = False
    wrong: bool = False
    noticed: dict[float, float] = {}
    until_sure: dict[float, float] = {}
    seconds: float = 0.0


def watcher(lives: int) -> None:
    """Live, and print what happened."""
    began = time.perf_counter()
    found: list[Lived] = []
    with ProcessPoolExecutor(sized(os.cpu_count(), 1)) as pool:
        for each in pool.map(lived, range(lives)):
            found.append(each)
            if len(found) % 10 == 0:
                print(f"{len(found)} lives, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    alerts, windows = sum(each.alerts for each in found), DAYS * lives
    some = np.mean([each.alerts > 0 for each in found])
    print(
        f"healthy: {alerts} alerts in {windows:,} windows of a day ({1000 * alerts / windows:.2f} per 1,000)"
    )
    print(f"  {100 * some:.0f} % of lives have one; something is surely low in", end=" ")
    print(f"{100 * np.mean([each.sure for each in found]):.1f} % of lives")
    wrong = 100 * np.mean([each.wrong for each in found])
    print(f"at the thresholds: something is ever sure in {wrong:.1f} % of lives (promise: at most 5 %)")
    print(
        f"{'days, median / nine tenths':32}" + "".join(f"{100 * drop:.0f} points".rjust(16) for drop in DROPS)
    )
    for what, days in (("noticed", "noticed"), ("sure", "until_sure")):
        cells = "".join(
            f"{summary([getattr(each, days)[drop] for each in found if drop in getattr(each, days)]):>16}"
            for drop in DROPS
        )
        print(f"{what:32}{cells}")
    print(f"{np.median([each.seconds for each in found]):.1f} s for a healthy life of {DAYS} days")


def lived(seed: int) -> Lived:
    """The lives of one seed."""
    found = Lived()
    with tempfile.TemporaryDirectory(prefix="trivium-lives-") as name:
        empty = template(Path(name))
        healthy(Life(Path(name), seed, empty), found)
        found.wrong = at_threshold(Life(Path(name), seed, empty))
        for drop in DROPS if seed % 5 == 0 else ():
            found.until_sure[drop] = under(Life(Path(name), seed, empty), drop)
    return found


def healthy(life: Life, found: Lived) -> None:
    """A healthy life; the drops branch off after two weeks."""
    began = time.perf_counter()
    for _ in life.live(MARK, HEALTHY, QUALITY):
        pass
    life.deploy()
    twins = {drop: life.twin(f"{drop}") for drop in DROPS if life.seed % 5 == 0}
    for _ in life.live(DAYS - MARK, HEALTHY, QUALITY):
        pass
    found.alerts = sum(each.cause == "quality" for each in alerts_of(life.store, NAME))
    found.sure = life.ever_sure()
    found.seconds = time.perf_counter() - began
    life.close()
    for drop, twin in twins.items():
        if not any(each.cause == "quality" for each in alerts_of(twin.store, NAME, firing=True)):
            found.noticed[drop] = first_message(twin, drop)
        twin.close()


def first_message(life: Life, drop: float) -> float:
    """Days from a drop until a message about quality; infinite without one."""
    begin = life.now
    for now, causes in life.live(DAYS - MARK, HEALTHY - drop, QUALITY - drop / 2, step=LOOK / 3):
        if "quality" in causes:
            return (now - begin) / DAY
    return float("inf")


def at_threshold(life: Life) -> bool:
    """Whether anything ever was sure though every mean was at its threshold."""
    sure = False
    for _ in life.live(DAYS, WARNING, QUALITY_WARNING):
        sure = sure or life.ever_sure()
    life.close()
    return sure


def under(life: Life, points: float) -> float:
    """Days until it is sure that the pass rate of all traffic is under the warning threshold."""
    begin, found = life.now, float("inf")
    for now, _ in life.live(DAYS, WARNING - points, QUALITY, step=LOOK / 3):
        if life.levels().sure_below(WHOLE, WARNING):
            found = (now - begin) / DAY
            break
    life.close()
    return found


def summary(days: list[float]) -> str:
    """Median, and nine tenths."""
    if not days:
        return "none"
    low, high = (float(np.quantile(days, q, method="inverted_cdf")) for q in (0.5, 0.9))
    return " / ".join("never" if np.isinf(each) else f"{each:.1f}" for each in (low, high))
