"""Compares two runs: computes differences, decides on them and collects warnings."""

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import zip_longest

import msgspec
import numpy as np

from trivium.agents.attempt import Attempt
from trivium.errors import ComparisonError, Problem
from trivium.runs.columns import most_frequent
from trivium.runs.comparing.case_changes import find_moved_cases
from trivium.runs.comparing.compared_slices import compared_slices
from trivium.runs.comparing.comparison import Comparison, MetricDelta
from trivium.runs.comparing.decision import (
    Options,
    deltas_of,
    incomparabilities,
    listed,
    overall_answer,
    passing,
)
from trivium.runs.comparing.graph_diff import compare_graphs
from trivium.runs.comparing.pairing import Methods, PairedScores, Pairing, ScoredRun
from trivium.runs.comparing.rows import WHOLE, Ints, numbers_of, repeats_of
from trivium.runs.run import Run
from trivium.runs.until_decided.difference import StoppedComparison, stopped_for
from trivium.runs.warnings import FEW_GROUPS, TOO_FEW_GROUPS
from trivium.suites.rubrics.loader import OVERALL
from trivium.suites.settings import Settings
from trivium.traces.trace import Trace

DECIDING = ("composite", "pass_rate")
"""Metrics that decide the answer. With many more, some would fail by chance alone."""

MAX_MOVES = 10
"""Most cases that the comparison lists as moved."""


def compare(
    base: Run,
    head: Run,
    *,
    margin: float | None = None,
    level: float | None = None,
    resamples: int | None = None,
    seed: int | None = None,
    force: bool = False,
    graphs: bool = False,
    by: str | Sequence[str] = (),
) -> Comparison:
    """Compare a run with an earlier one: pass, fail or inconclusive, and the difference of each metric.

    Attempts are paired by case and repeat, reduced to one value per case, and clustered by the suite's
    groups. Attempts that only one run has are counted but not compared.

    Args:
        base: The run to compare with.
        head: The run in question.
        margin: The loss that does not matter, in [0, 1]. This and the next three default to head's settings.
        level: Confidence level of the intervals, in (0, 1).
        resamples: Number of bootstrap resamples, at least 1.
        seed: Seed of the bootstrap.
        force: Compare runs even if their numbers do not mean the same; the differences become warnings.
        graphs: Also compare the edges of their process graphs and the times of their steps.
        by: Keys to break the deciding metrics down by: ``tag``, ``complexity``, ``group`` or a metadata key.

    Raises:
        ComparisonError: If the runs are not comparable (other metric versions, encoders, judges, rules or
            contents of cases) and ``force`` is False, if they have no attempt in common, or if an option is
            out of range.
        InputError: If no case has a value at a key of ``by``, or there are too many values.
    """
    settings = msgspec.convert(head.record.settings, Settings)
    options = Options(
        margin=settings.margin if margin is None else margin,
        level=settings.level if level is None else level,
        resamples=settings.resamples if resamples is None else resamples,
        seed=settings.seed if seed is None else seed,
    )
    options.check()
    differences = list(incomparabilities(base, head))
    if differences and not force:
        raise _refusal(base, head, differences)
    methods = Methods()
    left, right = ScoredRun.of(base, methods), ScoredRun.of(head, methods)
    absent = {"base": _absent(base, left, right), "head": _absent(head, right, left)}
    clusters = dict(clusters_of(head, right, lacking=bool(absent["head"].size)))
    absent_attempts = np.concatenate([absent["base"], absent["head"]])
    pairing = Pairing(left, right, clusters=clusters, absent=absent_attempts)
    if not pairing.attempts:
        raise ComparisonError("", _nothing_in_common(base, head))
    figures = {name: pairing.reduced(name, same_method=not force) for name in pairing.names}
    other_methods = list(_different_methods(figures, methods))
    if other_methods and not force:
        raise _refusal(base, head, other_methods)
    paired = {name: figure for name, figure in figures.items() if figure.pairs or figure.missing}
    if not paired:
        raise ComparisonError("", f"run {base.id} and run {head.id} have no figure in common")
    deltas = deltas_of(paired, pairing, right.tiers, options)
    same = not (differences or other_methods) and unchanged(base, head)
    if same:
        deltas = {name: passing(one) for name, one in deltas.items()}
    decided_by = tuple(name for name in DECIDING if name in deltas) or tuple(deltas)
    stopped = None if same else StoppedComparison.of(base, head, right, paired, options)
    if stopped is not None:
        decided_by = (stopped.metric,)
        deltas[stopped.metric] = stopped.on(deltas[stopped.metric])
    slices = {
        key: compared_slices(
            head,
            key,
            lambda only: Pairing(left, right, clusters=clusters, absent=absent_attempts, only=only),
            sorted(decided_by, key=lambda name: name != "pass_rate"),
            right.tiers,
            options,
            same_method=not force,
        )
        for key in ([by] if isinstance(by, str) else by)
    }
    unjudged = list(about_judges(left, right))
    answer, reason = overall_answer(
        # The others' p-values suppose that the number of cases was set beforehand.
        deltas if stopped is None else {stopped.metric: deltas[stopped.metric]},
        decided_by,
        options,
        same=same,
        unjudged=unjudged,
    )
    moves = figures[decided_by[0]].moved(MAX_MOVES)
    shown_by = [name for name in dict.fromkeys(("pass_rate", "composite", *settings.gates)) if name in deltas]
    warnings = [f"compared although unlike: {what}" for what in [*differences, *other_methods]]
    warnings += unjudged
    if stopped is not None:
        warnings.append(stopped.sentence)
    warnings += about_runs(base, head, left, right, said=stopped is not None)
    warnings += (
        f"{codes.size:,} attempts are missing in {word}, and taken at their worst and at their best"
        for word, codes in absent.items()
        if codes.size
    )
    warnings += about_figures(figures)
    warnings += about_options(deltas, options)
    missing = {
        word: {name: reasons.total() for name, reasons in side.unavailable.items() if name in deltas}
        | ({"attempts": int(absent[word].size)} if absent[word].size else {})
        for word, side in (("base", left), ("head", right))
    }
    return Comparison(
        base=base.id,
        head=head.id,
        suite=head.record.suite_name,
        answer=answer,
        reason=reason,
        decided_by=decided_by,
        metrics=deltas,
        only_base=tuple(left.cases.lacking(right.cases)),
        only_head=tuple(right.cases.lacking(left.cases)),
        unpaired={"base": left.attempts - pairing.attempts, "head": right.attempts - pairing.attempts},
        moved=tuple(move.case for move in moves),
        moves=moves,
        moves_of=decided_by[0],
        moved_cases=find_moved_cases(figures, shown_by or decided_by, left, right, (base, head)),
        unchanged=same,
        margin=options.margin,
        level=options.level,
        resamples=options.resamples,
        seed=options.seed,
        warnings=tuple(warnings),
        graphs=compare_graphs(base, head, clusters=clusters, level=options.level) if graphs else None,
        missing={word: counts for word, counts in missing.items() if counts},
        slices=slices,
    )


def _refusal(base: Run, head: Run, differences: Sequence[str]) -> ComparisonError:
    advice = "their numbers do not mean the same; force=True (--force) compares them all the same"
    return ComparisonError(f"{base.id} and {head.id}", [Problem("", what) for what in [*differences, advice]])


def _nothing_in_common(base: Run, head: Run) -> str:
    for run in (base, head):
        if run.record.kind == "live":
            return (
                f"run {run.id} has samples of production, which no other run has; how production changed: "
                "trivium monitor status"
            )
    return f"run {base.id} and run {head.id} have no case and repeat in common"


def clusters_of(run: Run, scored: ScoredRun, *, lacking: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the id and cluster of every case with an attempt; of every case if ``lacking``."""
    groups = run.store.groups(run.record.suite, scored.settings.group)
    known: dict[str, str] = {}
    for case, cluster in (
        zip((case.id for case in run.cases()), groups, strict=True)
        if lacking
        else ((scored.cases.at(position), cluster) for position, cluster in enumerate(groups))
    ):
        if case is not None:
            # Equal names are one text in memory.
            yield case, case if cluster == case else known.setdefault(cluster, cluster)


def _absent(run: Run, own: ScoredRun, other: ScoredRun) -> Ints:
    """Return the codes of the attempts that the other run has and this one should have but lacks."""
    alone = other.rows.lacking(own.rows)
    if run.record.kind == "human":
        return alone[:0]
    repeats = repeats_of(alone)
    alone = alone[(repeats >= 0) & (repeats < own.settings.repeats)]
    if not alone.size:
        return alone
    # A run that stopped when it was decided lacks nothing of the cases that it did not ask.
    ids = own.cases if own.settings.until_decided else (case.id for case in run.cases())
    due = np.zeros(len(own.case_numbers.names), np.bool_)
    due[[number for number in map(own.case_numbers.known, ids) if number is not None]] = True
    return alone[due[numbers_of(alone)]]


def _different_methods(figures: dict[str, PairedScores], methods: Methods) -> Iterator[str]:
    """Describe metrics without a pair of values of the same method; the composite only gets a warning."""
    for name, figure in figures.items():
        if name != "composite" and figure.wholly_unlike:
            (ours, theirs), count = figure.unlike.most_common(1)[0]
            yield f"{name}: {methods.named(ours)} in base, {methods.named(theirs)} in head ({count:,} pairs)"


def about_runs(
    base: Run, head: Run, left: ScoredRun, right: ScoredRun, *, said: bool = False
) -> Iterator[str]:
    """Yield warnings about values that are missing in either run.

    Args:
        base: The run compared with.
        head: The run in question.
        left: Scores of base.
        right: Scores of head.
        said: Whether it is said already why head stopped early.
    """
    for word, run in (("base", base), ("head", head)):
        if run.record.state != "done":
            yield f"{word} is not finished ({run.record.state})"
    for word, run, side in (("base", base, left), ("head", head, right)):
        if side.settings.until_decided and not (said and run is head):
            stop = stopped_for(run)
            what = "its gates were" if stop is None else f"its comparison with {stop.against} was"
            yield (
                f"{word} asked cases at most until {what} decided; the difference is of these "
                f"{len(side.cases):,}, and its interval supposes that their number was set beforehand"
            )
    for word, ours, theirs in (("base", left, right), ("head", right, left)):
        alone = int(np.count_nonzero(repeats_of(ours.rows.lacking(theirs.rows)) != WHOLE))
        if alone:
            yield f"{alone:,} of {ours.attempts:,} attempts of {word} have no counterpart and take no part"
    for word, ours, theirs in (("base", left, right), ("head", right, left)):
        names = [name for name in ours.scored if name not in theirs.scored and not theirs.bounds[name]]
        if names:
            yield f"only {word} has a score for {listed(names)}"


def about_judges(base: ScoredRun, head: ScoredRun) -> Iterator[str]:
    """Yield warnings about missing judgements, with the reason."""
    for word, side in (("base", base), ("head", head)):
        judged = {
            name: reasons
            for name, reasons in side.unavailable.items()
            if side.tiers[name] == "judge" and not name.endswith(f".{OVERALL}")
        }
        if judged:
            most = max(judged.values(), key=Counter.total)
            count, why = most.total(), most_frequent(most)
            part = "" if count == side.attempts else f" in {count:,} of {side.attempts:,}"
            yield f"{word} was not judged{part}: {why}."


def about_figures(figures: dict[str, PairedScores]) -> Iterator[str]:
    """Yield warnings about values that are left out of the comparison."""
    for name, figure in figures.items():
        other_method = figure.left_out - figure.one_sided
        if other_method:
            how = "rest on other parts in head" if name == "composite" else "were made in unlike ways"
            yield f"{name}: {other_method:,} pairs {how} and are left out"
        if figure.missing:
            yield f"{name}: {figure.missing:,} pairs lack a side: taken at its worst and at its best"
        if figure.one_sided:
            yield f"{name}: {figure.one_sided:,} pairs have a value on one side only and are left out"


def about_options(deltas: dict[str, MetricDelta], options: Options) -> Iterator[str]:
    """Yield warnings about the number of groups."""
    fewest = min((one.groups for one in deltas.values() if one.n), default=0)
    if fewest == 1:
        yield "one group gives no interval: how much another group would differ is unknown"
    elif 0 < fewest < TOO_FEW_GROUPS:
        yield f"intervals rest on {fewest} groups: too few to call them {100 * options.level:g} % intervals"
    elif 0 < fewest < FEW_GROUPS:
        yield f"intervals rest on {fewest} groups: with fewer than 20 they are wide"


def unchanged(base: Run, head: Run) -> bool:
    """Whether both runs have the same attempts, in the same order, with the same contents and steps.

    Times, ids of spans and usage are ignored. Reading stops at the first difference.
    """
    return all(
        ours is not None and theirs is not None and _digest(ours) == _digest(theirs)
        for ours, theirs in zip_longest(base.attempts(), head.attempts())
    )


def _digest(attempt: Attempt) -> bytes:
    trace = None if attempt.trace is None else _steps(attempt.trace)
    content = (attempt.case, attempt.repeat, attempt.output, attempt.error, attempt.reward, trace)
    return blake2b(msgspec.json.encode(content, order="deterministic"), digest_size=16).digest()


def _steps(trace: Trace) -> tuple[object, object]:
    spans = [(span.kind, span.name, span.agent, span.ok, span.input, span.output) for span in trace.spans]
    messages = [(each.sender, each.receiver, each.type, each.content) for each in trace.messages]
    return spans, messages
