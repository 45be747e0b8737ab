"""Compares two runs: pairs them, decides, and collects the cases that moved and the warnings."""

from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Unpack

import numpy as np
from msgspec.structs import replace

from trivium.errors import ComparisonError, Problem, suggest
from trivium.runs.columns import most_frequent
from trivium.runs.comparing.comparison import (
    AnotherUser,
    ComparedSlice,
    Comparison,
    Confirmed,
    MetricDelta,
    Question,
    Statistics,
    takes_statistics,
)
from trivium.runs.comparing.decision import (
    Options,
    deciding,
    deltas_of,
    incomparabilities,
    listed,
    moving_metrics,
    passing,
    verdict,
)
from trivium.runs.comparing.earlier_runs import (
    CaseCounts,
    CaseTotals,
    EarlierRuns,
    confirmed_by,
    earlier_runs,
    known_costs,
    prior_from_history,
)
from trivium.runs.comparing.graph_diff import compare_graphs
from trivium.runs.comparing.moved_cases import (
    FIXED,
    SAME,
    STATES,
    ChangeColumns,
    MovedCases,
    case_states,
    reader_of,
)
from trivium.runs.comparing.pairing import (
    WHOLE,
    Methods,
    PairedScores,
    Pairing,
    ScoredRun,
    chosen_of,
    numbers_of,
    repeats_of,
)
from trivium.runs.comparing.questions import questions
from trivium.runs.run import Run, same_attempts
from trivium.runs.slices import cases_by_value
from trivium.runs.until_decided.difference import StoppedComparison
from trivium.suites.rubrics.loader import OVERALL
from trivium.trust.clustered import about_groups
from trivium.trust.paired import holm

if TYPE_CHECKING:
    from trivium.trust.arrays import Ints

MAX_MOVES = 10
"""Most cases that the comparison lists as moved."""

ROUNDING = 1e-9
"""Smaller differences of a score are due to rounding."""


@takes_statistics
def compare(
    base: Run,
    head: Run,
    *,
    force: bool = False,
    graphs: bool = False,
    by: str | Sequence[str] = (),
    **statistics: Unpack[Statistics],
) -> Comparison:
    """Compare a run with an earlier one: pass, fail or inconclusive, and the difference of each metric.

    Attempts are paired by case and repeat, reduced to one value per case, and clustered by the suite's
    groups. Attempts that only one run has are counted but not compared.

    Args:
        base: The run to compare with.
        head: The candidate run.
        force: Compare runs even if their numbers do not mean the same; the differences become warnings.
        graphs: Also compare the edges of their process graphs and the times of their steps.
        by: Keys to break the deciding metrics down by: ``tag``, ``complexity``, ``group`` or a metadata key.
        **statistics: See :class:`~trivium.runs.comparing.comparison.Statistics`.

    Raises:
        ComparisonError: If the runs are not comparable (other metric versions, encoders, judges, rules or
            contents of cases) and ``force`` is False, if they have no attempt in common, or if an option is
            out of range.
        InputError: If no case has a value at a key of ``by``, or there are too many values.
    """
    options = Options.of(head, statistics)
    pair = _Pair(base, head, force=force)
    decision = _Decision(pair, options)
    left, right, decided_by = pair.left, pair.right, decision.decided_by
    slices, confirmed = pair.slices(by, decided_by, options), pair.confirmed
    moves = pair.figures[decided_by[0]].moved(MAX_MOVES)
    shown_by = moving_metrics(decision.deltas, right.settings)
    return Comparison(
        base=base.id,
        head=head.id,
        suite=head.record.suite_name,
        versions=_versions(base=base, head=head),
        answer=decision.verdict.answer,
        proof=decision.verdict.proof,
        verdict=decision.verdict.word,
        probability=decision.verdict.probability,
        decide=options.decide,
        prior=decision.prior,
        failing=decision.verdict.failing,
        reason=decision.verdict.reason,
        decided_by=decided_by,
        metrics=decision.deltas,
        only_base=_only(left, right),
        only_head=_only(right, left),
        unpaired={
            "base": left.attempts - pair.pairing.attempts,
            "head": right.attempts - pair.pairing.attempts,
        },
        moved=tuple(move.case for move in moves),
        moves=moves,
        moves_of=decided_by[0],
        moved_cases=pair.moved_cases(shown_by or decided_by),
        unchanged=decision.same,
        margin=options.margin,
        level=options.level,
        resamples=options.resamples,
        seed=options.seed,
        warnings=(*_warnings(pair, decision, options), *(confirmed.warnings if confirmed else ())),
        graphs=compare_graphs(base, head, clusters=pair.clusters, level=options.level) if graphs else None,
        missing=pair.missing(decision.deltas),
        cost_usd=known_costs(base=base, head=head),
        slices=slices,
        confirmed=confirmed,
        questions=decision.questions,
        wrong=None if confirmed else options.wrong_rates(decision.deltas[decided_by[0]].groups),
        another_user=pair.another_user(decided_by[0], level=options.level),
    )


class _Pair:
    """Two runs whose attempts are paired.

    Args:
        base: The run to compare with.
        head: The candidate run.
        force: Pair runs even if their numbers do not mean the same.

    Attributes:
        left: Scores of base.
        right: Scores of head.
        absent: Codes of the attempts that a run should have but lacks, by ``base`` and ``head``.
        clusters: Cluster of each case of head.
        figures: Paired scores by metric.
        unlike: Why their numbers do not mean the same; empty if they do.

    Raises:
        ComparisonError: If they have no attempt in common, or if their numbers do not mean the same and
            ``force`` is False.
    """

    def __init__(self, base: Run, head: Run, *, force: bool) -> None:
        for run in (base, head):
            if run.record.kind == "confirm":
                what = "holds further attempts at some cases of another run: compare that one"
                raise ComparisonError(f"run {run.id}", what)
        self.base, self.head, self._same_method = base, head, not force
        self.unlike = [*incomparabilities(base, head)]
        self._refuse_unlike()
        self._methods = methods = Methods()
        self.left, self.right = ScoredRun.of(base, methods), ScoredRun.of(head, methods)
        self.absent = {
            "base": _absent(base, self.left, self.right),
            "head": _absent(head, self.right, self.left),
        }
        self.clusters = dict(clusters_of(head, self.right, lacking=bool(self.absent["head"].size)))
        self.pairing = self.of_cases()
        if not self.pairing.attempts:
            raise ComparisonError("", _nothing_in_common(base, head))
        self.figures = {
            name: self.pairing.reduced(name, same_method=self._same_method) for name in self.pairing.names
        }
        self.unlike += _different_methods(self.figures, methods)
        self._refuse_unlike()
        self._counts: dict[str, CaseCounts] = {}

    @property
    def uses_composite(self) -> bool:
        """Whether one of the suites does."""
        return any(run.record.settings.asks_for_composite for run in (self.base, self.head))

    @cached_property
    def verdicts(self) -> CaseCounts | None:
        """Attempts and passes of each case, with those of earlier runs; None without verdicts."""
        return self.counts("pass_rate") if "pass_rate" in self.figures else None

    def another_user(self, name: str, *, level: float) -> AnotherUser | None:
        """How much the user models change the difference of a metric."""
        if self.head.record.settings.user is None:
            return None
        from trivium.runs.comparing.another_user import another_user

        return another_user(self.head, name, self.figures[name], self.clusters, level=level)

    @cached_property
    def confirmed(self) -> Confirmed | None:
        """The further attempts that were made to decide it; None without any."""
        return confirmed_by(self.base, self.head)

    @cached_property
    def _earlier(self) -> EarlierRuns:
        return earlier_runs(self.base, self.head)

    def counts(self, name: str) -> CaseCounts:
        """Values of a metric by case, with those of earlier runs."""
        if name not in self._counts:
            totals = CaseTotals(self.pairing, self._methods, name)
            self._counts[name] = totals.of_runs(self.left, self.right, self._earlier)
        return self._counts[name]

    def _refuse_unlike(self) -> None:
        if self.unlike and self._same_method:
            advice = "their numbers do not mean the same; force=True (--force) compares them all the same"
            problems = [Problem("", what) for what in [*self.unlike, advice]]
            raise ComparisonError(f"{self.base.id} and {self.head.id}", problems)

    def of_cases(self, only: Collection[str] | None = None) -> Pairing:
        """The pairs of some cases; None: of all."""
        absent = np.concatenate([*self.absent.values()])
        return Pairing(self.left, self.right, clusters=self.clusters, absent=absent, only=only)

    def slices(
        self, by: str | Sequence[str], decided_by: Sequence[str], options: Options
    ) -> dict[str, tuple[ComparedSlice, ...]]:
        """Break the deciding metrics down by each key; slices in which the first lost most come first."""
        names = sorted(decided_by, key=lambda name: name != "pass_rate")
        return {key: self._slices_by(key, names, options) for key in ([by] if isinstance(by, str) else by)}

    def _slices_by(self, by: str, names: Sequence[str], options: Options) -> tuple[ComparedSlice, ...]:
        slices: list[ComparedSlice] = []
        for value, cases in cases_by_value(self.head.store, self.head.record, by).items():
            pairing = self.of_cases(cases)
            scores = {name: pairing.reduced(name, same_method=self._same_method) for name in names}
            paired = {name: one for name, one in scores.items() if one.pairs or one.missing}
            if paired:
                deltas = deltas_of(paired, pairing, self.right.tiers, options)
                slices.append(ComparedSlice(value=value, cases=len(pairing.cases), metrics=deltas))
        for name in names:  # the p-values of all slices are adjusted together
            known = [
                (one, p) for one in slices if name in one.metrics and (p := one.metrics[name].p) is not None
            ]
            for (one, _), p_holm in zip(known, holm([p for _, p in known]), strict=True):
                one.metrics[name] = replace(one.metrics[name], p_holm=p_holm)
        return tuple(sorted(slices, key=lambda one: _loss_first(one.metrics.get(names[0]))))

    def moved_cases(self, by: Sequence[str]) -> MovedCases:
        """Find the cases whose deciding metrics changed, or that broke or were fixed by all attempts.

        Args:
            by: The deciding metrics; the first decides the order.
        """
        figures, counts = [self.figures[name] for name in by], self.verdicts
        deltas = np.nan_to_num(np.array([one.deltas for one in figures]))
        deltas[np.abs(deltas) <= ROUNDING] = 0
        first, others = np.abs(deltas[0]), np.abs(deltas[1:]).max(axis=0, initial=0)
        tried = np.zeros((6, first.size), np.int64) if counts is None else _tried(counts)
        numbers = np.array([self.left.case_numbers[case] for case in figures[0].cases], np.int64)
        in_both = np.isin(numbers, self.left.cases) & np.isin(numbers, self.right.cases)
        states = np.where(in_both, case_states(tried[0], tried[1], tried[3], tried[4]), SAME)
        decisive = np.argmax(deltas != 0, axis=0)  # the first metric that changed
        changes = np.take_along_axis(deltas, decisive[None], axis=0)[0]
        # Earlier attempts may show that a case broke, or was fixed, whose values are the same in both runs.
        changes = np.where(changes != 0, changes, np.where(states == FIXED, 1, -1) * (states <= FIXED))
        better = changes > 0
        order = np.lexsort((-others, better & (first > 0), -first, states))
        moved = order[changes[order] != 0]
        chosen = [figures[0].cases[at] for at in moved]
        paired = np.any([one.has_pair for one in figures], axis=0)
        rose = int(np.count_nonzero(better[moved]))
        found = MovedCases(
            by=tuple(by),
            compared=int(np.count_nonzero(paired)),
            better=rose,
            worse=moved.size - rose,
            states=dict(zip(STATES, np.bincount(states[moved], minlength=SAME)[:SAME].tolist(), strict=True)),
            earlier=int(tried[[2, 5]].sum()),
        )
        columns = found.__dict__["columns"] = ChangeColumns(
            cases=chosen,
            by=tuple(by),
            positions=np.array([side.positions_of(chosen) for side in (self.left, self.right)]),
            decisive=decisive[moved].astype(np.int32),
            better=better[moved],
            base=np.array([one.base[moved] for one in figures]),
            head=np.array([one.head[moved] for one in figures]),
            states=states[moved],
            tried=tried[:, moved].astype(np.int32),
        )
        found.__dict__["reader"] = reader_of(self.base, self.head, columns)
        return found

    def missing(self, names: Container[str]) -> dict[str, dict[str, int]]:
        """Count what each run lacks: values of some metrics, and attempts."""
        counts = {
            word: {name: reasons.total() for name, reasons in side.unavailable.items() if name in names}
            | ({"attempts": int(self.absent[word].size)} if self.absent[word].size else {})
            for word, side in (("base", self.left), ("head", self.right))
        }
        return {word: lacking for word, lacking in counts.items() if lacking}


class _Decision:
    """The answer of a comparison.

    Args:
        pair: The runs.
        options: Options of the comparison.

    Attributes:
        deltas: Differences by metric.
        same: Whether both runs have the same outputs.
        stopped: The comparison for which head stopped early, if it did.
        decided_by: The deciding metrics.
        unjudged: One sentence for each run that was not judged.
        prior: What was known of the deciding difference beforehand.
        verdict: The answer, and its grounds.

    Raises:
        ComparisonError: If no metric has a pair.
    """

    def __init__(self, pair: _Pair, options: Options) -> None:
        paired = {name: figure for name, figure in pair.figures.items() if figure.pairs or figure.missing}
        if not paired:
            raise ComparisonError("", f"run {pair.base.id} and run {pair.head.id} have no figure in common")
        self.same = not pair.unlike and same_attempts(pair.base, pair.head)
        self.decided_by = _deciding(paired, options)
        if not self.same and len(self.decided_by) == 1:
            learned = prior_from_history(pair.head, self.decided_by[0], pair.clusters)
            options = replace(options, prior=learned, prior_of=self.decided_by[0])
        stop, stopped = pair.head.provenance.until_decided, None
        if not self.same and stop is not None and stop.against == pair.base.id and stop.metric in paired:
            figure = paired[stop.metric]
            stopped = StoppedComparison(pair.base, pair.head, pair.right, figure, options, metric=stop.metric)
        if not (pair.uses_composite or "composite" in {*self.decided_by, stopped and stopped.metric}):
            paired.pop("composite", None)
        deltas = deltas_of(paired, pair.pairing, pair.right.tiers, options)
        if self.same:
            deltas = {name: passing(one) for name, one in deltas.items()}
        self.deltas = deltas
        if stopped is not None:
            self.decided_by = (stopped.metric,)
            deltas[stopped.metric] = stopped.on(deltas[stopped.metric])
            # Its interval is another one than those of metrics with the same values.
            deltas.update({name: replace(one, same_as=None) for name, one in deltas.items()})
        self.stopped = stopped
        self.prior = options.prior_for(self.decided_by[0])
        self.questions: tuple[Question, ...] = ()
        if not self.same and stopped is None and len(self.decided_by) == 1:
            self.questions = self._ask_both(pair, options)
        self.unjudged = list(_about_judges(pair.left, pair.right))
        self.verdict = verdict(
            # The others' p-values suppose that the number of cases was set beforehand.
            deltas if stopped is None else {stopped.metric: deltas[stopped.metric]},
            self.decided_by,
            options,
            same=self.same,
            unjudged=self.unjudged,
        )

    def _ask_both(self, pair: _Pair, options: Options) -> tuple[Question, ...]:
        """Answer both questions; the one that decides is the difference of the deciding metric."""
        name = self.decided_by[0]
        found = questions(
            name,
            pair.figures[name],
            self.deltas[name],
            pair.counts(name),
            options,
            confirmed=pair.confirmed is not None,
        )
        if found is None:
            return ()
        self.deltas |= {
            each: found.deciding if each == name else replace(found.deciding, same_as=name, tier=one.tier)
            for each, one in self.deltas.items()
            if name in {each, one.same_as}
        }
        return found.told


def _loss_first(delta: MetricDelta | None) -> tuple[bool, float, int]:
    """Sort key: the largest loss first, then more cases; slices without a difference last."""
    if delta is None or delta.delta is None:
        return True, 0.0, 0
    return False, delta.delta, -delta.n


def _versions(**runs: Run) -> dict[str, str]:
    named = {side: run.record.names.version for side, run in runs.items()}
    return {side: version for side, version in named.items() if version is not None}


def _deciding(deltas: Mapping[str, PairedScores], options: Options) -> tuple[str, ...]:
    """The metrics that decide.

    Raises:
        ComparisonError: If the runs do not have the metric that the suite names.
    """
    if options.decide.by is not None and options.decide.by not in deltas:
        what = f'no pair has a value of "{options.decide.by}".{suggest(options.decide.by, deltas)}'
        raise ComparisonError("", [Problem("decide.by", what)])
    return deciding(deltas, options.decide.by)


def _warnings(pair: _Pair, decision: _Decision, options: Options) -> Iterator[str]:
    """Yield what changes how the comparison is read."""
    stopped = decision.stopped
    yield from (f"compared although unlike: {what}" for what in pair.unlike)
    yield from decision.unjudged
    if stopped is not None:
        yield stopped.sentence
    yield from _about_runs(pair, said=stopped is not None)
    for word, codes in pair.absent.items():
        if codes.size:
            yield f"{codes.size:,} attempts are missing in {word}, and taken at their worst and at their best"
    yield from _about_figures(pair.figures)
    yield from _about_options(decision.deltas, pair.pairing.groups, options)


def _about_runs(pair: _Pair, *, said: bool) -> Iterator[str]:
    """Yield warnings about values that are missing in either run; ``said``: not why head stopped early."""
    base, head, left, right = pair.base, pair.head, pair.left, pair.right
    for word, run in (("base", base), ("head", head)):
        if run.record.state != "done":
            yield f"{word} is not finished ({run.record.state})"
    for word, run, side in (("base", base, left), ("head", head, right)):
        if side.settings.until_decided and not (said and run is head):
            stop = run.provenance.until_decided
            what = "its gates were" if stop is None else f"its comparison with {stop.against} was"
            yield (
                f"{word} asked cases at most until {what} decided; the difference is of these "
                f"{len(side.cases):,}, and its interval supposes that their number was set beforehand"
            )
    for word, ours, theirs in (("base", left, right), ("head", right, left)):
        alone = int(np.count_nonzero(repeats_of(ours.lacking(theirs)) != WHOLE))
        if alone:
            yield f"{alone:,} of {ours.attempts:,} attempts of {word} have no counterpart and take no part"
    for word, ours, theirs in (("base", left, right), ("head", right, left)):
        names = [name for name in ours.scored if name not in theirs.scored and not theirs.bounds[name]]
        if names:
            yield f"only {word} has a score for {listed(names)}"


def _about_judges(base: ScoredRun, head: ScoredRun) -> Iterator[str]:
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


def _about_figures(figures: dict[str, PairedScores]) -> Iterator[str]:
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


def _about_options(deltas: dict[str, MetricDelta], groups: "Ints", options: Options) -> Iterator[str]:
    """Yield warnings about the number of groups; ``groups`` has the group of each paired case."""
    fewest = min((one.groups for one in deltas.values() if one.n), default=0)
    sizes = np.bincount(groups)
    yield from about_groups(fewest, float(groups.size**2 / (sizes @ sizes)), level=options.level)


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
    cases = (case.id for case in run.cases()) if lacking else scored.names
    if not lacking:
        asked = np.zeros(scored.positions.max(initial=-1) + 1, np.bool_)
        asked[scored.positions] = True
        groups = compress(groups, asked)
    known: dict[str, str] = {}
    for case, cluster in zip(cases, groups, strict=True):
        # Equal names are one text in memory.
        yield case, case if cluster == case else known.setdefault(cluster, cluster)


def _absent(run: Run, own: ScoredRun, other: ScoredRun) -> "Ints":
    """Return the codes of the attempts that the other run has and this one should have but lacks."""
    alone = other.lacking(own)
    if run.record.kind == "human":
        return alone[:0]
    repeats = repeats_of(alone)
    alone = alone[(repeats >= 0) & (repeats < own.settings.repeats)]
    if not alone.size:
        return alone
    # A run that stopped when it was decided lacks nothing of the cases that it did not ask.
    ids = own.names if own.settings.until_decided else (case.id for case in run.cases())
    return alone[chosen_of(own.case_numbers, ids)[numbers_of(alone)]]


def _only(own: ScoredRun, other: ScoredRun) -> tuple[str, ...]:
    """The cases that another run has no attempt of, in suite order."""
    alone = own.cases[np.isin(own.cases, other.cases, invert=True)]
    return tuple(own.case_numbers.names[number] for number in alone)


def _different_methods(figures: dict[str, PairedScores], methods: Methods) -> Iterator[str]:
    """Describe metrics without a pair of values of the same method; the composite only gets a warning."""
    for name, figure in figures.items():
        if name != "composite" and figure.wholly_unlike:
            (ours, theirs), count = figure.unlike.most_common(1)[0]
            names = methods.numbers.names
            yield f"{name}: {names[ours]} in base, {names[theirs]} in head ({count:,} pairs)"


def _tried(counts: CaseCounts) -> "Ints":
    """Passes, attempts and earlier attempts of base, then those of head; shape (6, n)."""
    sides = (counts.base, counts.head)
    return np.array([row for each in sides for row in (each.passes, each.attempts, each.earlier)])
