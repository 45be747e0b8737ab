"""Breaks the deciding metrics of a comparison down by tag, complexity, group or a metadata key."""

from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from trivium.runs.comparing.comparison import ComparedSlice, MetricDelta
from trivium.runs.comparing.decision import Options, deltas_of
from trivium.runs.comparing.pairing import Pairing
from trivium.runs.run import Run
from trivium.runs.slices import cases_by_value
from trivium.trust.paired import holm


def compared_slices(
    run: Run,
    by: str,
    pair: Callable[[Collection[str]], Pairing],
    names: Sequence[str],
    tiers: dict[str, str],
    options: Options,
    *,
    same_method: bool,
) -> tuple[ComparedSlice, ...]:
    """Compute the differences of some metrics over the cases with each value of a key.

    P-values are adjusted for the number of slices (Holm), metric by metric.

    Args:
        run: The run whose cases have the values.
        by: The key, as for :func:`trivium.runs.slices.slices_of`.
        pair: Pairs the attempts of the given cases.
        names: The metrics; the first one orders the slices.
        tiers: Tiers by metric.
        options: Options of the comparison.
        same_method: Whether to leave out pairs whose values have different methods.

    Returns:
        The slices with at least one pair, largest loss first.

    Raises:
        InputError: If no case has a value at the key, or there are too many values.
    """
    slices: list[ComparedSlice] = []
    for value, cases in cases_by_value(run.store, run.record, by).items():
        pairing = pair(cases)
        scores = {name: pairing.reduced(name, same_method=same_method) for name in names}
        paired = {name: one for name, one in scores.items() if one.pairs or one.missing}
        if paired:
            deltas = deltas_of(paired, pairing, tiers, options)
            slices.append(ComparedSlice(value=value, cases=len(pairing.cases), metrics=deltas))
    adjusted = [dict(_adjusted(slices, name)) for name in names]
    by_loss = [
        msgspec.structs.replace(
            one, metrics={name: of[index] for name, of in zip(names, adjusted, strict=True) if index in of}
        )
        for index, one in enumerate(slices)
    ]
    return tuple(sorted(by_loss, key=lambda one: _loss_first(one.metrics.get(names[0]))))


def _adjusted(slices: Sequence[ComparedSlice], name: str) -> Iterator[tuple[int, MetricDelta]]:
    """Yield (index of the slice, difference of a metric with its p-value adjusted)."""
    deltas = {index: one.metrics[name] for index, one in enumerate(slices) if name in one.metrics}
    tested = {index: delta.p for index, delta in deltas.items() if delta.p is not None}
    p_holm = dict(zip(tested, holm(list(tested.values())), strict=True))
    for index, delta in deltas.items():
        yield index, msgspec.structs.replace(delta, p_holm=p_holm.get(index))


def _loss_first(delta: MetricDelta | None) -> tuple[bool, float, int]:
    if delta is None or delta.delta is None:
        return True, 0.0, 0
    return False, delta.delta, -delta.n
