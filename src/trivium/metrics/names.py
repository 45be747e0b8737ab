"""Names: every metric that a suite speaks of is known, or all that are not are said at once."""

from collections.abc import Iterator, Sequence

from trivium.errors import Problem, SuiteError
from trivium.metrics.registry import (
    CASE_FIGURES,
    FOLDED,
    SURELY_KNOWN,
    asked_metrics,
    known_metrics,
    metric_class,
    no_metric,
)
from trivium.suites.settings import Settings

ACCEPTED = "accepted"
"""In a gate: the share of judgements that certificates accept; ``NAME.accepted`` is that of one dimension."""


def check_names(settings: Settings, *, source: str, also: Sequence[str] = ()) -> None:
    """Look at each name in ``metrics``, ``success``, ``pass``, ``similarity``, ``gates`` and the weights.

    Args:
        settings: The suite's.
        source: What messages call it.
        also: Metrics that the suite names beside ``settings.metrics``, when those stand in for its own.

    Raises:
        SuiteError: With every name that no metric has, its place and the nearest that one has.
    """
    problems = unknown_names(settings, also=also)
    if problems:
        raise SuiteError(source, problems)


def unknown_names(settings: Settings, *, also: Sequence[str] = ()) -> list[Problem]:
    """Every name that no metric has, with its place and the nearest that one has; see :func:`check_names`."""
    named = asked_metrics(settings)
    if not named:
        return [Problem("metrics", "names no metric (all: trivium show metrics)")]
    problems: list[Problem] = []
    own = _loaded(named, settings, problems)
    own |= _loaded(also, settings, [])
    doubtful = [
        (where, name, others)
        for where, name, others in _spoken_of(settings)
        # A path is followed where the metric is built, which says what is wrong with it.
        if ":" not in name and name not in SURELY_KNOWN and name not in own and name not in others
    ]
    known = {*known_metrics(settings), *own} if doubtful else set()
    for where, name, others in doubtful:
        if name not in known:
            problems.append(Problem(where, no_metric(name, [*known, *others])))
    return problems


def _gated(name: str, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """The metric that a gate speaks of, and names that will do in its place; see ``ACCEPTED``."""
    certificates = () if settings.judge is None else settings.judge.certificate
    certified = tuple(each.dimension for each in certificates if not isinstance(each, str))
    metric = name.removesuffix(f".{ACCEPTED}")
    return metric, (*FOLDED, ACCEPTED) if metric == name else certified


def _loaded(named: Sequence[str], settings: Settings, problems: list[Problem]) -> set[str]:
    """What the named classes call themselves: a class named by its path has a name of its own too."""
    own = set()
    for index, name in enumerate(named):
        if name in CASE_FIGURES:
            continue
        try:
            own.add(metric_class(name, settings).name)
        except SuiteError as error:
            problems += [Problem(f"metrics[{index}]", each.what) for each in error.problems]
    return own


def _spoken_of(settings: Settings) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(place, name, names that will do there beside those of metrics)."""
    if settings.success_rule.metric is not None:
        yield "success.metric", settings.success_rule.metric, ()
    if settings.passed is not None:
        yield "pass.metric", settings.passed.metric, FOLDED[:1]
    for name in settings.similarity:
        yield f"similarity.{name}", name, ()
    for name in settings.gates:
        yield f"gates.{name}".removesuffix(f".{ACCEPTED}"), *_gated(name, settings)
    for name in settings.composite.weights:
        yield f"composite.weights.{name}", name, ()
