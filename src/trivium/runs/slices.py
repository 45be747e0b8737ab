"""Breaks the figures of a run down by tag, complexity, group or a metadata key."""

from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from trivium.display import RichRepr
from trivium.errors import InputError, suggest
from trivium.runs.aggregation import Aggregation, evaluated_cases
from trivium.runs.columns import Column
from trivium.runs.summary import Figure
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.selection import value_at
from trivium.trust.clustered import TOO_FEW_GROUPS
from trivium.trust.subsets import SubsetDifference, adjusted, subset_difference
from trivium.values import counted, text_or_json

MAX_SLICES = 1000
"""Most values that a key may have."""

MANY_SLICES = 5
"""From this number of slices on, a warning says that some are low by chance."""

_NAMES = {"tag": "tags", "user": "user.model"}
"""Keys for which users say something else than the field of a case."""


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of the cases with one value of a key.

    Attributes:
        value: The value, as text.
        cases: Number of cases.
        attempts: Number of attempts.
        failed: Number of attempts that did not pass.
        pass_rate: Share of attempts that passed, with its interval.
        composite: The composite, with its interval.
        metrics: Every metric, as in the summary of the run.
        versus_rest: Difference of ``Slices.of`` from all cases without this value, with a p-value adjusted
            for the number of slices; None if every case has the value or none has a score.
    """

    value: str
    cases: int
    attempts: int
    failed: int
    pass_rate: Figure
    composite: Figure
    metrics: dict[str, Figure]
    versus_rest: SubsetDifference | None = None


class Slices(RichRepr, msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run by the values of a key, worst slice first.

    Attributes:
        run: Id of the run.
        suite: Name of the suite.
        by: The key: ``tag``, ``complexity``, ``group``, another field of cases, or a metadata key.
        of: The metric that orders the slices: ``pass_rate``, or ``composite`` if no attempt has a verdict.
        slices: The slices, worst first. A case with several tags is in several slices.
        without: Number of cases without a value.
        level: Confidence level of the intervals, in (0, 1).
        warnings: Reservations that change how to read the numbers.
        composite_shown: Whether the suite uses the composite, or it orders the slices.
    """

    run: str
    suite: str
    by: str
    of: str
    slices: tuple[Slice, ...]
    without: int
    level: float
    warnings: tuple[str, ...]
    composite_shown: bool = True

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one flat row per slice and metric, ``pass_rate`` and ``composite`` among them."""
        for one in self.slices:
            figures = {"pass_rate": one.pass_rate, "composite": one.composite} | one.metrics
            for name, figure in figures.items():
                low, high = figure.ci95 or (None, None)
                tested = one.versus_rest if name == self.of else None
                yield {
                    "run": self.run,
                    "by": self.by,
                    "value": one.value,
                    "cases": one.cases,
                    "metric": name,
                    "mean": figure.mean,
                    "ci_low": low,
                    "ci_high": high,
                    "n": figure.n,
                    "groups": figure.groups,
                    "difference": None if tested is None else tested.difference,
                    "p_holm": None if tested is None else tested.p_holm,
                }

    def to_polars(self) -> Any:
        """Return :meth:`rows` as a ``polars.DataFrame``.

        Raises:
            MissingExtra: If Polars is not installed.
        """
        from trivium.runs.rows import frame_of_rows

        return frame_of_rows(list(self.rows()), "polars")

    def to_pandas(self) -> Any:
        """Return :meth:`rows` as a ``pandas.DataFrame``.

        Raises:
            MissingExtra: If pandas is not installed.
        """
        from trivium.runs.rows import frame_of_rows

        return frame_of_rows(list(self.rows()), "pandas")


def slices_of(store: Store, run: RunRecord, by: str) -> Slices:
    """Compute the figures of a run by the values of a key.

    Whether a slice differs from the other cases is tested with the variance and the intra-group correlation
    of the whole run (:func:`trivium.trust.subsets.subset_difference`); p-values are adjusted for the number
    of slices (Holm).

    Args:
        store: The store that holds the run.
        run: The run.
        by: ``tag``, ``complexity``, ``group``, another field of cases, a dotted path, or a metadata key.

    Raises:
        InputError: If no case has a value at the key, or there are more than ``MAX_SLICES`` values.
    """
    settings = run.settings
    whole = Aggregation(settings)
    parts: dict[str, Aggregation] = {}
    members: dict[str, array[int]] = {}
    without = added = 0
    several = False
    cases = _with_values(store, run, by)
    for (_, values), evaluated in zip(cases, evaluated_cases(store, run, settings), strict=True):
        without += not values
        several |= len(values) > 1
        evaluated.add_to(whole)
        for value in values:
            evaluated.add_to(parts.setdefault(value, Aggregation(settings)))
            indices = range(added, added + len(evaluated.evaluations))
            members.setdefault(value, array("q")).extend(indices)
        added += len(evaluated.evaluations)
    for aggregation in (whole, *parts.values()):
        aggregation.flush()
    of = "pass_rate" if whole.verdicts.mean is not None else "composite"
    tested = adjusted([_versus_rest(whole.all_columns[of], indices) for indices in members.values()])
    slices = [
        _slice(value, aggregation, difference, settings.level)
        for (value, aggregation), difference in zip(parts.items(), tested, strict=True)
    ]
    slices.sort(key=lambda one: _worst_first(one.pass_rate if of == "pass_rate" else one.composite))
    return Slices(
        run=run.id,
        suite=run.suite_name,
        by=by,
        of=of,
        slices=tuple(slices),
        without=without,
        level=settings.level,
        warnings=tuple(_warnings(slices, without=without, several=several, level=settings.level)),
        composite_shown=of == "composite" or settings.asks_for_composite,
    )


def cases_by_value(store: Store, run: RunRecord, by: str) -> dict[str, set[str]]:
    """Return the ids of the cases with each value of a key.

    Args:
        store: The store that holds the run.
        run: The run.
        by: The key, as for :func:`slices_of`.

    Raises:
        InputError: If no case has a value at the key, or there are more than ``MAX_SLICES`` values.
    """
    by_value: dict[str, set[str]] = {}
    for case, values in _with_values(store, run, by):
        for value in values:
            by_value.setdefault(value, set()).add(case.id)
    return by_value


def _with_values(store: Store, run: RunRecord, by: str) -> Iterator[tuple[Case, list[str]]]:
    """Yield the cases of a run, each with its values at a key.

    Raises:
        InputError: If there are more than ``MAX_SLICES`` values; after the last case, if there is none.
    """
    known: set[str] = set()
    metadata: Counter[str] = Counter()
    groups = store.groups(run.suite, run.settings.group)
    for case, cluster in zip(store.cases(run.suite), groups, strict=True):
        values = values_of(case, by, cluster=cluster)
        known.update(values)
        if not known:
            metadata.update(case.metadata.keys())
        if len(known) > MAX_SLICES:
            why = f"{by} has more than {MAX_SLICES:,} values: add a metadata key with fewer, such as ranges"
            raise InputError("--by", why)
        yield case, values
    if not known:
        names = ["tag", "complexity", "group", *sorted(metadata)[:20]]
        what = f"no case has a value for {by!r}; known: {', '.join(names)}{suggest(by, names)}"
        raise InputError("--by", what)


def values_of(case: Case, by: str, *, cluster: str) -> list[str]:
    """Return the values of a case at a key, as texts; several for a list, none for a missing value.

    Args:
        case: The case.
        by: The key, as for :func:`slices_of`.
        cluster: Name of the case's cluster, which is its value for ``group``.
    """
    if by == "group":
        return [cluster]
    value = value_at(case, _NAMES.get(by, by))
    values = value if isinstance(value, list | tuple) else [value]
    texts = dict.fromkeys(text_or_json(each, canonical=True) for each in values)
    return [text for text in texts if text]


def _versus_rest(column: Column, indices: "array[int]") -> SubsetDifference | None:
    inside = np.isin(column.cases, np.frombuffer(indices, np.int64))
    return subset_difference(column.values, column.groups, inside)


def _slice(value: str, aggregation: Aggregation, tested: SubsetDifference | None, level: float) -> Slice:
    return Slice(
        value=value,
        cases=aggregation.cases,
        attempts=aggregation.attempts,
        failed=aggregation.failed,
        pass_rate=aggregation.verdicts.figure(level=level),
        composite=aggregation.composite.figure(level=level),
        metrics={
            name: column.figure(level=level)
            for name, column in aggregation.columns.items()
            if set(column.status) != {"skipped"}
        },
        versus_rest=tested,
    )


def _worst_first(figure: Figure) -> tuple[bool, float, int]:
    return figure.mean is None, figure.mean or 0.0, -figure.n


def _warnings(slices: list[Slice], *, without: int, several: bool, level: float) -> Iterator[str]:
    if len(slices) >= MANY_SLICES:
        yield (
            f"among {len(slices):,} slices some are low by chance: only those marked as lower or higher "
            f"differ from the other cases ({100 * level:g} %, Holm)"
        )
    few = sum(one.pass_rate.groups < TOO_FEW_GROUPS for one in slices)
    if few:
        what = counted(few, "slice has", "slices have")
        yield f"{what} fewer than {TOO_FEW_GROUPS} groups: too few for intervals of {100 * level:g} %"
    if several:
        yield "a case with several values is in several slices"
    if without:
        yield f"{without:,} cases have no value and are in no slice"
