"""Counting verdicts: win rates with intervals that go by groups, and how much the order mattered."""

from collections import Counter
from collections.abc import Sequence

from trivium.runs.pairs.judged import DimensionVerdict, JudgedPair, OrderVerdict, PairFigure, Verdict
from trivium.trust.differences import sign_test
from trivium.trust.intervals import mean_interval

VALUES: dict[Verdict, float] = {"win": 1.0, "tie": 0.5, "loss": 0.0}


def of_both_orders(base_first: OrderVerdict, head_first: OrderVerdict) -> DimensionVerdict:
    """What two orders say together: what both say, else a tie; nothing where one says nothing."""
    said = (base_first.verdict, head_first.verdict)
    if None in said:
        return DimensionVerdict(verdict=None, consistent=None, orders=(base_first, head_first))
    same = said[0] == said[1]
    return DimensionVerdict(
        verdict=said[0] if same else "tie", consistent=same, orders=(base_first, head_first)
    )


def figure(pairs: Sequence[JudgedPair], dimension: str, *, level: float) -> PairFigure:
    """How head does against base in one dimension.

    Args:
        pairs: All pairs; those without the dimension count as unjudged.
        dimension: Which.
        level: Of the interval, in (0, 1).
    """
    codes = {group: code for code, group in enumerate(dict.fromkeys(pair.group for pair in pairs))}
    values: list[float] = []
    groups: list[int] = []
    counts: Counter[str] = Counter()
    nets: Counter[int] = Counter()
    for pair in pairs:
        found = pair.verdicts.get(dimension)
        if found is None or found.verdict is None:
            counts["unjudged"] += 1
            continue
        values.append(VALUES[found.verdict])
        groups.append(codes[pair.group])
        counts[found.verdict] += 1
        nets[codes[pair.group]] += {"win": 1, "tie": 0, "loss": -1}[found.verdict]
        if found.orders:
            counts["both"] += 1
            counts["inconsistent"] += not found.consistent
            counts[_followed(found)] += 1
    interval = mean_interval(values, groups, level=level) if values else None
    return PairFigure(
        win_rate=sum(values) / len(values) if values else None,
        ci95=None if interval is None else (interval.low, interval.high),
        groups=len(set(groups)),
        method=None if interval is None else interval.method,
        wins=counts["win"],
        losses=counts["loss"],
        ties=counts["tie"],
        unjudged=counts["unjudged"],
        inconsistent=counts["inconsistent"],
        for_first=counts["first"],
        for_second=counts["second"],
        position_bias=(counts["first"] + counts["second"]) / counts["both"] if counts["both"] else None,
        p=sign_test(sum(net > 0 for net in nets.values()), sum(net < 0 for net in nets.values())),
    )


def _followed(found: DimensionVerdict) -> str:
    """Which place won in both orders, though it held another output each time."""
    said = [order.verdict for order in found.orders]
    return {"loss win": "first", "win loss": "second"}.get(" ".join(map(str, said)), "neither")
