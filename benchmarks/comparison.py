"""How often comparisons of two runs err, and which losses they find: Trivium and the usual tests.

    python -m benchmarks.comparison [comparisons per row, default 4000]

Two agents answer the same cases, which form groups (documents). Cases differ in difficulty much more than the
agents differ; a change of the agent helps some groups and hurts others. "wrong" is how often a loss or a gain
is significant at 95 % although the agents are equally good on average (nominal: 5 %). "finds" is how often a
true loss of 0.05 is significant. The Monte Carlo error of a share near 5 % is printed.

A second table has clustered losses: whole cases are lost, with an intra-group correlation of 0.5, and none is
won. It shows how often a comparison passes at a margin of 0.02 although the true loss is larger (nominal:
2.5 %), how often it fails, and how often the interval contains the true loss; next to it mean ± t errors.

A third table has the answers by proof: outcomes of which one in ten is won and one in ten lost, and more by a
true difference; and scores with a normal difference. A fourth has the same agent twice, with eleven metrics:
how often a comparison fails because of any of them, how often its pass rate passes, and how often it fails by
the policy ``balanced``.

A fifth table has CPU seconds and peak memory of a process that compares two stored runs, the second of which
has its attempts in partitions, and most of whose cases moved.
"""

import json
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.commands import python
from benchmarks.sizes import sized
from trivium.cli.main import run_command
from trivium.trust.decision import probability_of_loss
from trivium.trust.intervals import mean_interval
from trivium.trust.paired import holm, non_inferiority, paired_means

Floats = npt.NDArray[np.float64]

ROWS = (
    (10, 1, 0.0),
    (40, 1, 0.0),
    (200, 1, 0.0),
    (10, 8, 0.05),
    (20, 8, 0.05),
    (40, 8, 0.05),
    (200, 4, 0.05),
)
"""Groups, cases in each, and standard deviation of the effect of the change between groups."""
DIFFICULTY, NOISE, LOSS = 0.2, 0.08, 0.05

LOSS_GROUPS = ((20, 8), (25, 20), (40, 4), (200, 8))
LOST, CORRELATION, MARGIN = (0.03, 0.05), 0.5, 0.02

ATTEMPTS = sized((20_000, 100_000, 200_000), (40,))
SCRIPT = """
import sys, time
from pathlib import Path
import trivium as tv
from trivium.store.store import Store
with Store(sys.argv[1]) as store:
    head, base = [tv.Run(store, record) for record in store.runs()]
    moved = len(tv.compare(base, head).moved_cases)
peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
print(moved, time.process_time(), peak)
"""


def runs(
    rng: np.random.Generator, rounds: int, groups: int, size: int, spread: float, loss: float
) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Scores of two runs in ``rounds`` simulations, shape (rounds, cases), and the group of each case."""
    codes = np.repeat(np.arange(groups), size)
    difficulty = rng.normal(0.5, DIFFICULTY / 2, (rounds, groups))[:, codes]
    difficulty = difficulty + rng.normal(0, DIFFICULTY, (rounds, codes.size))
    change = rng.normal(-loss, spread, (rounds, groups))[:, codes]
    noise = rng.normal(0, NOISE, (2, rounds, codes.size))
    return difficulty + noise[0], difficulty + change + noise[1], codes


def share_significant(
    rng: np.random.Generator, rounds: int, row: tuple[int, int, float], loss: float
) -> list[float]:
    """Share of comparisons in which each test finds a significant difference: ours, paired t, unpaired t."""
    base, head, codes = runs(rng, rounds, *row, loss)
    ours = paired_means(0.5 - (head - base) / 2, 0.5 + (head - base) / 2, codes, resamples=1)
    unpaired = stats.ttest_ind(head, base, axis=1, equal_var=False).pvalue
    ungrouped = stats.ttest_rel(head, base, axis=1).pvalue
    significant = [one.p <= 0.05 for one in ours if one.p is not None]
    return [float(np.mean(each)) for each in (significant, ungrouped < 0.05, unpaired < 0.05)]


def clustered_losses(
    rng: np.random.Generator, rounds: int, groups: int, size: int, loss: float
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Differences of outcomes in ``rounds`` simulations, shape (rounds, cases), and each case's group."""
    room = (1 - CORRELATION) / CORRELATION
    rates, codes = (
        rng.beta(loss * room, (1 - loss) * room, (rounds, groups)),
        np.repeat(np.arange(groups), size),
    )
    return -(rng.uniform(size=(rounds, codes.size)) < rates[:, codes]).astype(np.float64), codes


def print_clustered_losses(rng: np.random.Generator, rounds: int) -> None:
    """Print how often a true loss passes, how often it fails, and how often the interval contains it."""
    print(f"\n{'clustered losses':24}{'passes (nominal 2.5 %)':^26}{'fails':^18}{'interval contains it':^20}")
    print(f"{'groups × cases, loss':24}{'ours':>13}{'± t':>13}{'ours':>9}{'± t':>9}{'ours':>10}{'± t':>10}")
    for groups, size in LOSS_GROUPS:
        for loss in LOST:
            values, codes = clustered_losses(rng, rounds, groups, size, loss)
            ours = [mean_interval(each, codes, low=-1.0) for each in values]
            plain = [mean_interval(each, codes, low=None, high=None) for each in values]
            tested = paired_means(-values, np.zeros_like(values), codes, resamples=1)
            ends = [
                np.array([(0.0, 0.0) if one is None else (one.low, one.high) for one in way])
                for way in (ours, plain)
            ]
            cells = [
                np.mean(found, axis=-1)
                for found in (
                    [low > -MARGIN for low, _ in (each.T for each in ends)],
                    [
                        [one.p is not None and one.p <= 0.05 and (one.delta or 0) < 0 for one in tested],
                        ends[1][:, 1] < 0,
                    ],
                    [(low <= -loss) & (-loss <= high) for low, high in (each.T for each in ends)],
                )
            ]
            widths = ((13, 13), (9, 9), (10, 10))
            shown = "".join(
                f"{share:{width}.1%}"
                for cell, both in zip(cells, widths, strict=True)
                for share, width in zip(cell, both, strict=True)
            )
            print(f"{f'{groups} × {size}, {loss:g}':24}{shown}", flush=True)


def answers(deltas: Floats) -> list[str]:
    """What is proven of single cases' differences, shape (comparisons, cases)."""
    found = paired_means(0.5 - deltas / 2, 0.5 + deltas / 2, np.arange(deltas.shape[1]), resamples=1)
    return [non_inferiority(each, margin=MARGIN) for each in found]


def print_answers(rng: np.random.Generator, rounds: int) -> None:
    """Print how often a comparison passes and fails by proof, at true differences."""
    print(f"\n{'true difference':36}{'cases':>8}{'passes':>10}{'fails':>10}")
    for count in (60, 100, 200):
        for shift in (-0.1, 0.0, 0.1):
            shares = [0.1 - min(0.0, shift), 0.1 + max(0.0, shift)]
            outcomes = rng.choice([-1.0, 1.0, 0.0], p=[*shares, 1 - sum(shares)], size=(rounds, count))
            scores = np.clip(rng.normal(shift / 2, 0.1, (rounds, count)), -1, 1)
            for name, deltas in (
                (f"{shift:+.2f} of outcomes", outcomes),
                (f"{shift / 2:+.2f} of scores", scores),
            ):
                found = answers(deltas)
                cells = "".join(f"{found.count(answer) / rounds:10.1%}" for answer in ("pass", "fail"))
                print(f"{name:36}{count:8}{cells}", flush=True)


def suite_scores(rng: np.random.Generator, difficulty: Floats, repeats: int) -> Floats:
    """Eleven metrics of one run of an agent, averaged over repeats: shape (metrics, cases)."""
    size = (repeats, difficulty.size)
    passed = (rng.uniform(size=size) < difficulty).astype(np.float64)
    close = [np.clip(0.3 + 0.5 * passed + rng.normal(0, spread, size), 0, 1) for spread in (0.1, 0.2)]
    judged = [
        np.round(4 * np.clip(0.2 + 0.7 * passed + rng.normal(0, 0.15, size), 0, 1)) / 4 for _ in range(2)
    ]
    calls = rng.poisson(3, size) + 1
    wasted = rng.binomial(calls, 0.15)
    traced = [1 - wasted / calls, 1 / (1 + wasted), rng.beta(8, 1, size), calls / (calls + 2), wasted == 0]
    composite = 0.5 * passed + 0.5 * np.mean([*close, *judged], axis=0)
    return np.array([passed, composite, *close, *judged, *traced]).mean(axis=1)


def print_unchanged(rng: np.random.Generator, rounds: int) -> None:
    """Print how often a comparison of an agent with itself fails because of any metric."""
    columns = f"{'cases':>8}{'fails':>10}{'by pass rate':>14}{'passes':>10}{'balanced fails':>16}"
    print(f"\n{'the same agent twice':36}{columns}")
    for count in (12, 60, 200):
        for repeats in (1, 3):
            fails = decided = passes = balanced = 0
            for _ in range(rounds):
                difficulty = rng.beta(3, 1, count)
                sides = [suite_scores(rng, difficulty, repeats) for _ in range(2)]
                found = paired_means(sides[0], sides[1], np.arange(count), resamples=1)
                adjusted = holm([each.p or 1.0 for each in found])
                proven = [non_inferiority(each, margin=MARGIN) for each in found]
                decided += proven[0] == "fail"
                passes += proven[0] == "pass"
                other = any(
                    each == "fail" and p <= 0.05 for each, p in zip(proven[1:], adjusted[1:], strict=True)
                )
                fails += proven[0] == "fail" or other
                delta, interval = found[0].delta, found[0].interval
                assert delta is not None
                assert interval is not None
                balanced += other or probability_of_loss(delta, interval, margin=MARGIN) > 0.5
            name = f"repeats: {repeats}"
            cells = f"{fails / rounds:10.1%}{decided / rounds:14.1%}{passes / rounds:10.1%}"
            cells += f"{balanced / rounds:16.1%}"
            print(f"{name:36}{count:8}{cells}", flush=True)


def stored_runs(folder: Path, attempts: int) -> str:
    """Make two runs of a suite in a new store, the second with partitions; return the store's address."""
    draw, words = random.Random(attempts), [f"word{number}" for number in range(40)]
    references = [draw.sample(words, 8) for _ in range(attempts)]

    def write(name: str, lines: list[dict[str, object]]) -> str:
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        return str(folder / name)

    def answers(name: str) -> str:
        texts = (
            " ".join(word if draw.random() < 0.6 else draw.choice(words) for word in reference)
            for reference in references
        )
        return write(name, [{"case": f"q{at:06d}", "output": text} for at, text in enumerate(texts)])

    cases = [
        {"id": f"q{at:06d}", "input": f"Question {at}?", "references": [" ".join(reference)]}
        for at, reference in enumerate(references)
    ]
    weights = {"weights": {"jaccard": 1}}
    content = {"name": "large", "metrics": ["jaccard"], "composite": weights}
    suite = write("suite.json", [content | {"cases": write("cases.jsonl", cases)}])
    store = f"sqlite:///{folder / 'store.db'}"
    line = ["score", suite, "--store", store, "--quiet", "--outputs"]
    for name, options in (("base.jsonl", []), ("head.jsonl", ["--partitions", str(folder / "parts")])):
        if code := run_command([*line, answers(name), *options]):
            raise SystemExit(code)
    return store


def print_large_runs() -> None:
    """Print what comparing two stored runs takes: CPU seconds, peak memory, bytes for each more attempt."""
    print(f"\n{'attempts of each run':24}{'cases moved':>13}{'CPU s':>9}{'peak MiB':>10}{'bytes more':>12}")
    known: tuple[int, float] | None = None
    for attempts in ATTEMPTS:
        with tempfile.TemporaryDirectory() as folder:
            store = stored_runs(Path(folder), attempts)
            printed = python(Path(folder), SCRIPT, store)
        moved, cpu, peak = (float(each) for each in printed.split())
        more = "" if known is None else f"{1024 * (peak - known[1]) / (attempts - known[0]):,.0f}"
        print(f"{f'{attempts:,}':24}{moved:13,.0f}{cpu:9.1f}{peak / 1024:10.0f}{more:>12}", flush=True)
        known = attempts, peak


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
    start, rng = time.perf_counter(), np.random.default_rng(42)
    error = (0.05 * 0.95 / rounds) ** 0.5
    print(f"{rounds:,} comparisons per row; Monte Carlo error near 5 %: ±{error:.1%}\n")
    print(f"{'':24}{'wrong (nominal 5 %)':^34}  {'finds a loss of 0.05':^34}")
    names = f"{'ours':>8}{'paired t':>12}{'unpaired t':>14}"
    print(f"{'groups × cases, spread':24}{names}  {names}")
    for row in ROWS:
        groups, size, spread = row
        wrong, finds = share_significant(rng, rounds, row, 0.0), share_significant(rng, rounds, row, LOSS)
        cells = "  ".join(f"{ours:8.1%}{paired:12.1%}{apart:14.1%}" for ours, paired, apart in (wrong, finds))
        print(f"{f'{groups} × {size}, {spread:g}':24}{cells}")
    print_clustered_losses(rng, max(1, rounds // 4))
    print_answers(rng, rounds)
    print_unchanged(rng, max(1, rounds // 4))
    print_large_runs()
    print(f"\n{time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
