"""How many cases `--until-decided` asks, and how often it decides wrongly, beside designs of fixed looks.

    python -m benchmarks.until_decided [worlds per row, default 400]

A suite of 500 cases has the gate "success ≥ 0.8", and the agent's true rate lies so far above it (negative:
below). Either each case is a group of its own, or 100 groups have 5 cases each, whose outcomes correlate by
0.3. Each world draws the agent's outcomes anew.

    decided      share of worlds in which the gate passes or fails
    wrong        share in which it fails although the rate reaches the limit, or passes although it does not;
                 a rate at the limit itself reaches it
    asked        mean share of the 500 cases that are asked

    until        asked in random order until decided (confidence sequence, 95 % at every look)
    fixed        all cases, then one look at the gate's 95 % interval
    5 looks      after each fifth of the cases, by the interval at Pocock's level (1.6 % a look, 5 % in all)
"""

import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from benchmarks.sizes import sized
from trivium.runs.until_decided.gates import Gates
from trivium.suites.settings import Gate, Settings
from trivium.trust.intervals import gate_answer, rate_interval

LIMIT = 0.8
CASES = sized(500, 60)
DIFFERENCES = (0.0, 0.02, -0.02, 0.05, -0.05, 0.1, -0.1, -0.2)
CORRELATION = 0.3
POCOCK = 0.9842
"""Level of each of five looks at which the error is 5 % in all (Pocock 1977: z = 2.413)."""

Outcomes = npt.NDArray[np.float64]


def outcomes(rng: np.random.Generator, rate: float, size: int) -> Outcomes:
    """Outcomes by group, shape (groups, size)."""
    groups = CASES // size
    if size == 1:
        return (rng.random((groups, 1)) < rate).astype(np.float64)
    spread = 1 / CORRELATION - 1
    own = rng.beta(rate * spread, (1 - rate) * spread, groups)
    return (rng.random((groups, size)) < own[:, None]).astype(np.float64)


def until(values: Outcomes) -> tuple[str, float]:
    """The answer, and the share of the cases that were asked."""
    settings = Settings(gates={"success": Gate(at_least=LIMIT)}, until_decided=True)
    gates = Gates(settings, [values.shape[1]] * len(values))
    for number, group in enumerate(values, start=1):
        gates.bet([{"success": (value, value)} for value in group.tolist()])
        if gates.decided:
            return gates.answer("success", "at_least"), number / len(values)
    return "inconclusive", 1.0


def looks(values: Outcomes, shares: tuple[float, ...], level: float) -> tuple[str, float]:
    """The first answer of a gate after some shares of the groups."""
    for share in shares:
        some = values[: round(share * len(values))]
        codes = np.repeat(np.arange(len(some)), some.shape[1])
        answer = gate_answer(rate_interval(some.ravel(), codes, level=level), 0.0, at_least=LIMIT)
        if answer != "inconclusive":
            return answer, share
    return "inconclusive", 1.0


def rows(worlds: int) -> Iterator[str]:
    """The table."""
    ways = ("until", "fixed", "5 looks")
    yield f"{'':24}" + "".join(f"{way:^26}" for way in ways)
    yield f"{'group of':<10}{'difference':>12}  " + "".join(
        f"{'decided':>9}{'wrong':>8}{'asked':>8} " for _ in ways
    )
    for size in (1, 5):
        for difference in DIFFERENCES:
            found: dict[str, list[tuple[bool, bool, float]]] = {way: [] for way in ways}
            right = "pass" if difference >= 0 else "fail"
            for world in range(worlds):
                values = outcomes(np.random.default_rng([world, size]), LIMIT + difference, size)
                answers = (
                    until(values),
                    looks(values, (1.0,), 0.95),
                    looks(values, (0.2, 0.4, 0.6, 0.8, 1.0), POCOCK),
                )
                for way, (answer, asked) in zip(ways, answers, strict=True):
                    found[way].append(
                        (answer != "inconclusive", answer not in {right, "inconclusive"}, asked)
                    )
            line = f"{size:<10}{difference:>+12.2f}  "
            for way in ways:
                decided, wrong, asked = np.mean(np.array(found[way], np.float64), axis=0)
                line += f"{100 * decided:>7.0f} %{100 * wrong:>6.1f} %{100 * asked:>6.0f} % "
            yield line


if __name__ == "__main__":
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else sized(400, 2)):
        print(row, flush=True)
