"""How often an alert names the right cause, and how often a wrong one, by simulation.

    python -m benchmarks.alert_causes [streams per row, default 200]

A stream is what a window holds when an alert fires: interactions by agents, tools, models, tags and versions,
of which a healthy one passes with the probability of the world, and of which some part breaks. The worlds
differ in how much traffic there is after the drop, in the healthy rate (also one that differs between tools),
in sessions (of four, an intra-session correlation of 0.3) and in sampling (errors always, the rest with
probability 0.1). Kinds of streams:

* one: a tool, a version beside others, or a version that replaces another, breaks at some time;
* small: a part of one twentieth of the traffic breaks;
* two: two versions break at once;
* moves: version 1.5 breaks, 1.6 replaces it and is broken, too; the window begins before both;
* confounded: version 1.5 breaks, and calls one tool nine times as often as the other versions do;
* everything: all parts fall alike, at some time; there is no cause to be found;
* everything, deployed: the same, half a window after a version replaced another;
* nothing: nothing fell; asked all the same.

Of each: the share of streams in which the right part is named (for two and moves, first one of them, then
both, by what is left without the first), the share in which a wrong part is named, the share in which
the right one is named together with one that cannot be told from it, and the share without a cause.
"""

import sys
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from benchmarks.sizes import sized
from trivium.monitor.alerting.origins import Origin, Part, origin_of
from trivium.store.live_samples import Sample

FACETS = ("agent", "tool", "tag", "model", "version", "service")
BEGIN = 1_767_225_600.0
TOOLS = ("search", "refund", "invoice", "track", "book", "mail", "price", "stock")
MODELS = ("large", "small")
AGENTS = ("billing", "sales", "travel")
TAGS = ("vip", "mobile", "batch", "trial")
ALPHA = 0.025
"""Error of the first look for a cause of an alert: half of that of the monitor."""
BROKEN = 0.4
"""Pass rate of what is broken."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same in all streams of a row.

    Attributes:
        samples: Samples of the window.
        rate: Pass rate of what is healthy.
        unlike: Whether the healthy rates of tools differ, by up to 0.2.
        session: Interactions of a session.
        sampled: Whether failures are always sampled, and the rest with probability 0.1.
        broken: Pass rate of what is broken.
    """

    samples: int = 300
    rate: float = 0.96
    unlike: bool = False
    session: int = 1
    sampled: bool = False
    broken: float = BROKEN


WORLDS = {
    "300 samples, 96 % healthy": World(),
    "100 samples": World(samples=100),
    "1,500 samples, a fall to 80 %": World(samples=1500, broken=0.8),
    "tools unlike, 85 % healthy": World(samples=600, rate=0.85, unlike=True),
    "sessions of four": World(samples=600, session=4),
    "errors always sampled": World(samples=600, sampled=True),
    "900 samples, 90 % healthy, a fall to 60 %": World(samples=900, rate=0.9, broken=0.6),
    "400 in sessions, errors sampled": World(samples=400, session=4, sampled=True, rate=0.92),
}


class Turn(msgspec.Struct):
    """An interaction before it is sampled."""

    facets: dict[str, tuple[str, ...]]
    at: float
    session: int
    rate: float = 0.0


def turns(rng: np.random.Generator, world: World, versions: Callable[[float], str]) -> list[Turn]:
    """Interactions in order; ``versions`` says which version runs at a time in [0, 1)."""
    number = world.samples * (6 if world.sampled else 1)
    rates = dict(
        zip(TOOLS, world.rate - (rng.random(len(TOOLS)) * 0.2 if world.unlike else np.zeros(8)), strict=True)
    )
    popularity = rng.dirichlet(np.full(len(TOOLS), 1.0))
    found = []
    for place in range(number):
        at = place / number
        called = tuple(dict.fromkeys(rng.choice(TOOLS, 1 + int(rng.random() < 0.4), p=popularity)))
        facets = {
            "agent": (AGENTS[TOOLS.index(called[0]) % 3],),
            "tool": tuple(str(each) for each in called),
            "tag": tuple(tag for tag in TAGS if rng.random() < 0.1),
            "model": (MODELS[int(rng.random() < 0.3)],),
            "version": (versions(at),),
            "service": ("web",),
        }
        found.append(Turn(facets, at, place // world.session, min(rates[each] for each in called)))
    return found


def sampled(rng: np.random.Generator, world: World, found: Sequence[Turn]) -> list[Sample]:
    """Outcomes, and which of them are samples."""
    shocks = rng.random(len(found))
    samples = []
    for place, turn in enumerate(found):
        # In a session three of ten outcomes follow a draw that its turns share.
        shared = world.session > 1 and rng.random() < 0.3**0.5
        passed = bool(shocks[turn.session if shared else place] < turn.rate)
        probability = 0.1 if world.sampled and passed else 1.0
        if rng.random() < probability:
            samples.append(made(place, turn, passed, probability, world))
    return samples


def made(place: int, turn: Turn, passed: bool, probability: float, world: World) -> Sample:
    """A sample as the store has it."""
    time = BEGIN + 86_400 * turn.at
    return Sample(
        number=place, monitor="m", trace=f"t{place}", version=1, run=1, position=place, time=time,
        scored=time, probability=probability, weight=(0.1 if world.sampled else 1.0) / probability, rule="",
        score=float(passed), passed=passed, confidence=None, failed=False, seconds=1.0, query="", output="",
        session=f"s{turn.session}" if world.session > 1 else None, facets=turn.facets,
    )  # fmt: skip


def has(turn: Turn, *parts: Part) -> bool:
    return any(value in turn.facets[facet] for facet, value in parts)


Stream = tuple[list[Sample], list[Part]]


def one_tool(rng: np.random.Generator, world: World) -> Stream:
    found = turns(rng, world, lambda _: "1.4")
    often = {tool: sum(has(each, ("tool", tool)) for each in found) for tool in TOOLS}
    broken = ("tool", sorted(often, key=lambda tool: -often[tool])[int(rng.integers(3))])
    return broken_from(rng, world, found, [broken], 0.5), [broken]


def one_version(rng: np.random.Generator, world: World) -> Stream:
    found = turns(rng, world, lambda at: "1.5" if at > 0.4 and rng.random() < 0.5 else "1.4")
    return broken_from(rng, world, found, [("version", "1.5")]), [("version", "1.5")]


def replaced(rng: np.random.Generator, world: World) -> Stream:
    found = turns(rng, world, lambda at: "1.5" if at > 0.6 else "1.4")
    return broken_from(rng, world, found, [("version", "1.5")]), [("version", "1.5")]


def small(rng: np.random.Generator, world: World) -> Stream:
    found = turns(rng, world, lambda _: "1.5" if rng.random() < 0.05 else "1.4")
    return broken_from(rng, world, found, [("version", "1.5")], 0.3), [("version", "1.5")]


def two(rng: np.random.Generator, world: World) -> Stream:
    broken = [("version", "1.5"), ("version", "1.6")]
    found = turns(rng, world, lambda at: str(rng.choice(["1.4", "1.5", "1.6"])) if at > 0.4 else "1.4")
    return broken_from(rng, world, found, broken), broken


def moves(rng: np.random.Generator, world: World) -> Stream:
    broken = [("version", "1.5"), ("version", "1.6")]
    found = turns(rng, world, lambda at: "1.4" if at < 0.5 else "1.5" if at < 0.75 else "1.6")
    return broken_from(rng, world, found, broken), broken


def confounded(rng: np.random.Generator, world: World) -> Stream:
    found = turns(rng, world, lambda at: "1.5" if at > 0.3 and rng.random() < 0.4 else "1.4")
    for each in found:
        likely = 0.9 if has(each, ("version", "1.5")) else 0.1
        if rng.random() < likely:
            each.facets["tool"] = tuple({*each.facets["tool"], "export"})
    return broken_from(rng, world, found, [("version", "1.5")]), [("version", "1.5")]


def everything(rng: np.random.Generator, world: World) -> Stream:
    return all_broken(rng, world, turns(rng, world, lambda _: "1.4" if rng.random() < 0.5 else "1.5"))


def deployed(rng: np.random.Generator, world: World) -> Stream:
    return all_broken(rng, world, turns(rng, world, lambda at: "1.4" if at < 0.3 else "1.5"))


def nothing(rng: np.random.Generator, world: World) -> Stream:
    found = turns(rng, world, lambda at: "1.5" if at > 0.4 and rng.random() < 0.5 else "1.4")
    return sampled(rng, world, found), []


def all_broken(rng: np.random.Generator, world: World, found: list[Turn]) -> Stream:
    for each in found:
        if each.at > 0.65:
            each.rate -= world.rate - world.broken if world.unlike is False else 0.3
    return sampled(rng, world, found), []


def broken_from(
    rng: np.random.Generator, world: World, found: list[Turn], parts: list[Part], since: float = 0.0
) -> list[Sample]:
    for each in found:
        if each.at >= since and has(each, *parts):
            each.rate = world.broken
    return sampled(rng, world, found)


KINDS: dict[str, Callable[[np.random.Generator, World], Stream]] = {
    "one tool": one_tool,
    "one version": one_version,
    "one version, replaced": replaced,
    "small": small,
    "two": two,
    "moves": moves,
    "confounded": confounded,
    "everything": everything,
    "everything, deployed": deployed,
    "nothing": nothing,
}


class Outcome(msgspec.Struct):
    """Streams, by what was named."""

    right: int = 0
    both: int = 0
    unsure: int = 0
    wrong: int = 0
    none: int = 0


def named(samples: list[Sample]) -> Origin | None:
    """The cause that an alert would name."""
    return origin_of(samples, "pass_rate", FACETS, expected=0.85, alpha=ALPHA)


def judged(kind: str, world: World, streams: int) -> Outcome:
    """Name the cause of some streams."""
    found = Outcome()
    for seed in range(streams):
        rng = np.random.default_rng([seed, list(KINDS).index(kind)])
        samples, right = KINDS[kind](rng, world)
        first = named(samples)
        if first is None:
            found.none += 1
        elif first.part in right:
            found.right += 1
            found.unsure += any(each not in right for each in first.likewise)
            if len(right) > 1:
                second = named([each for each in samples if first.value not in each.facets[first.facet]])
                found.both += second is not None and second.part in right
                found.wrong += second is not None and second.part not in right
        else:
            found.wrong += 1
    return found


def main(streams: int) -> None:
    """Print a row for each world and kind."""
    print(f"{'':24}{'right':>8}{'both':>8}{'wrong':>8}{'none':>8}{'not told apart':>16}")
    for name, world in list(WORLDS.items())[: sized(None, 1)]:
        print(name)
        for kind in KINDS:
            found = judged(kind, world, streams)
            cells = "".join(
                f"{100 * number / streams:7.1f}%"
                for number in (found.right, found.both, found.wrong, found.none)
            )
            print(f"  {kind:22}{cells}{100 * found.unsure / streams:15.1f}%", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else sized(200, 1))
