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

Then `--until-decided --against RUN`: 500 cases are compared with a stored run, margin 0.02; the share that is
not asked is what the agent and the judge are spared. The true difference, head minus base, is given; a
decision is wrong if it passes at or below -0.02, or fails at or above 0. Differences of cases are

    changed      -1 or 1 in 30 % of the cases, else 0
    mostly zero  -1 or 1 in 5 % of the cases, or as many as the true difference needs, else 0
    skewed       0.6 in a tenth of the cases, little in all others
    clustered    100 groups of 5 cases, half of the variance between groups
"""

import sys
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.sizes import sized
from trivium.runs.until_decided.difference import Difference
from trivium.runs.until_decided.gates import Gates
from trivium.suites.settings import Gate, Settings
from trivium.trust.intervals import gate_answer, rate_interval
from trivium.trust.paired import non_inferiority, paired_means

LIMIT = 0.8
CASES = sized(500, 60)
DIFFERENCES = (0.0, 0.02, -0.02, 0.05, -0.05, 0.1, -0.1, -0.2)
CORRELATION = 0.3
POCOCK = 0.9842
"""Level of each of five looks at which the error is 5 % in all (Pocock 1977: z = 2.413)."""

MARGIN = 0.02
TRUE_DIFFERENCES = (0.0, -0.02, 0.02, 0.05, -0.05, 0.1, -0.1, 0.2, -0.2)
KINDS = ("changed", "mostly zero", "skewed", "clustered")

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


def differences(rng: np.random.Generator, kind: str, mean: float) -> Outcomes:
    """Differences by group, shape (groups, size)."""
    if kind == "clustered":
        signs = rng.choice([-0.2, 0.2], (CASES // 5, 6))
        return np.asarray(mean + signs[:, :1] + signs[:, 1:], dtype=np.float64)
    if kind == "skewed":
        return np.where(rng.random((CASES, 1)) < 0.1, 0.6, (mean - 0.06) / 0.9)
    changed = max({"changed": 0.3, "mostly zero": 0.05}[kind], abs(mean))
    u = rng.random((CASES, 1))
    better = (changed + mean) / 2
    return np.where(u < better, 1.0, np.where(u < changed, -1.0, 0.0))


def until_compared(values: Outcomes) -> tuple[str, float]:
    """The answer of a comparison, and the share of the cases that were asked."""
    test = Difference(margin=MARGIN, level=0.95, largest=values.shape[1])
    for number, group in enumerate(values, start=1):
        test.bet(group, group)
        if test.decided:
            return test.answer, number / len(values)
    return "inconclusive", 1.0


def compared_looks(values: Outcomes, shares: tuple[float, ...], level: float) -> tuple[str, float]:
    """The first answer of a comparison after some shares of the groups."""
    for share in shares:
        some = values[: round(share * len(values))]
        codes = np.repeat(np.arange(len(some)), some.shape[1])
        half = some.reshape(1, -1) / 2
        found = paired_means(0.5 - half, 0.5 + half, codes, level=level, resamples=1)
        answer = non_inferiority(found[0], margin=MARGIN)
        if answer != "inconclusive":
            return answer, share
    return "inconclusive", 1.0


def comparison_rows(worlds: int, kinds: Sequence[str] = KINDS) -> Iterator[str]:
    """The table of comparisons."""
    ways = ("until", "fixed", "5 looks")
    yield f"{'':26}" + "".join(f"{way:^26}" for way in ways)
    yield f"{'differences':<14}{'true':>10}  " + "".join(
        f"{'decided':>9}{'wrong':>8}{'asked':>8} " for _ in ways
    )
    for kind in kinds:
        for mean in TRUE_DIFFERENCES:
            found: dict[str, list[tuple[bool, bool, float]]] = {way: [] for way in ways}
            wrong = "fail" if mean >= 0 else "pass" if mean <= -MARGIN else ""
            for world in range(worlds):
                values = differences(np.random.default_rng([world, KINDS.index(kind)]), kind, mean)
                answers = (
                    until_compared(values),
                    compared_looks(values, (1.0,), 0.95),
                    compared_looks(values, (0.2, 0.4, 0.6, 0.8, 1.0), POCOCK),
                )
                for way, (answer, asked) in zip(ways, answers, strict=True):
                    found[way].append((answer != "inconclusive", answer == wrong, asked))
            line = f"{kind:<14}{mean:>+10.2f}  "
            for way in ways:
                decided, mistaken, share = np.mean(np.array(found[way], np.float64), axis=0)
                line += f"{100 * decided:>7.0f} %{100 * mistaken:>6.1f} %{100 * share:>6.0f} % "
            yield line


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
    count = int(sys.argv[1]) if len(sys.argv) > 1 else sized(400, 2)
    for table in (rows, comparison_rows):
        for row in table(count):
            print(row, flush=True)
        print()
