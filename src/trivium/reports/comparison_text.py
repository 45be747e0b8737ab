"""Wording of a comparison."""

from collections import Counter
from itertools import islice

import msgspec

from trivium.reports import wording
from trivium.reports.document.blocks import Answer, Tone
from trivium.reports.wording import (
    NOTHING,
    counted,
    dollars,
    intervals_label,
    number,
    share,
    signed,
    signed_interval,
)
from trivium.runs.comparing.comparison import OF_A_QUESTION, Calls, Comparison, MetricDelta, Word, WrongRates
from trivium.runs.comparing.decision import listed
from trivium.runs.comparing.graph_diff import EdgeChange, GraphComparison, PaceChange
from trivium.runs.summary import further_cases_needed
from trivium.safe_text import one_line
from trivium.store.records import End
from trivium.trust.decision import DifferencePrior
from trivium.trust.sample_size import MOST_NEEDED
from trivium.trust.sequential_mean import METHOD

METRICS_NAMED = 4
"""Metrics that got better or worse and are named in the answer."""
BROKE_NAMED = 20
"""Cases that broke and are named in the answer."""

ENDS: dict[End | None, str] = {
    "decided": "",
    "calls": "Then the calls were used up: more could still tell.",
    "cases": "More attempts at these cases would hardly tell more: more cases would.",
    "costs": "More would cost more than the wrong decisions that they prevent (costs.call).",
    "nothing": "No further attempt gives a value.",
}
"""Why no further attempts were made."""

PROVEN = {"pass": "no worse", "fail": "worse", "inconclusive": "neither"}


def interval_of(figure: MetricDelta, comparison: Comparison) -> str:
    """The interval of a difference; ``identical`` if both outputs and values are the same."""
    if comparison.unchanged and figure.n and not (figure.wins or figure.losses):
        return "identical"
    return signed_interval(figure.ci95)


def wins_losses_ties(figure: MetricDelta) -> str:
    """Wins, losses and ties."""
    return f"{figure.wins:,}/{figure.losses:,}/{figure.ties:,}"


class ComparedFigure(msgspec.Struct, frozen=True):
    """A figure of a comparison, with its names (``pass_rate = composite``) and whether it decides."""

    name: str
    figure: MetricDelta
    decides: bool


def rows(comparison: Comparison) -> list[ComparedFigure]:
    """Each value once, what decides first."""
    names: dict[str, list[str]] = {}
    for name, figure in comparison.metrics.items():
        names.setdefault(figure.same_as or name, []).append(name)
    return [
        ComparedFigure(
            " = ".join(sorted(alike, key=lambda name: name != first)),
            comparison.metrics[first],
            first in comparison.decided_by,
        )
        for first, alike in sorted(names.items(), key=lambda each: each[0] not in comparison.decided_by)
    ]


def further_cases(figure: MetricDelta) -> str:
    """Number of further cases that would settle the comparison, for a table."""
    if figure.answer != "inconclusive":
        return ""
    if figure.needs_cases is None:
        return NOTHING if figure.ci95 is None else f">{MOST_NEEDED:,}"
    return f"{figure.needs_cases:,}"


def verdict_words(comparison: Comparison) -> str:
    """The verdict, with its probability where it is not proven: ``Likely not worse (60 %)``.

    With missing values it is the lower of the probabilities with these at their worst and at their best.
    """
    return _words(comparison.verdict, _probabilities(comparison))


def _words(verdict: Word, probabilities: list[tuple[float, ...]]) -> str:
    words, known = verdict.capitalize(), [odds for odds in probabilities if odds]
    if verdict == "likely worse":
        return f"{words} ({share(max(map(min, known)))})"
    return f"{words} ({share(1 - max(map(max, known)))})" if verdict == "likely not worse" else words


def _probabilities(comparison: Comparison) -> list[tuple[float, ...]]:
    return [comparison.metrics[name].probabilities for name in comparison.decided_by]


def answer_sentence(comparison: Comparison) -> str:
    """The verdict, by how much, and what would prove it. Empty for unchanged outputs."""
    return "" if comparison.unchanged else f"{verdict_words(comparison)}: {by_how_much(comparison)}"


def by_how_much(comparison: Comparison) -> str:
    """By how much what decides changed, and what would prove it."""
    deciders = comparison.decided_by
    own = [name for name in deciders if comparison.metrics[name].answer == comparison.proof]
    name = (*comparison.failing, *own, *deciders)[0]
    figure = comparison.metrics[name]
    if figure.delta is None:
        return f"no pair has {one_line(name)} on both sides."
    settled_by = further_cases_needed(figure) if comparison.proof == "inconclusive" else None
    sentence = f"{one_line(name)} {_change(figure)}"
    if name in deciders:
        return f"{sentence}{f'; {settled_by}' if settled_by else ''}."
    beside = [each for each in comparison.failing if each not in deciders]
    named = [f"{one_line(each)} {_change(comparison.metrics[each])}" for each in beside[:METRICS_NAMED]]
    named += [f"{len(beside) - METRICS_NAMED:,} more"] if len(beside) > METRICS_NAMED else []
    decider = f"{one_line(deciders[0])} {_change(comparison.metrics[deciders[0]])}"
    they = "they do" if len(beside) > 1 else "it does"
    return f"{listed(named)}, beyond chance, though {they} not decide. What decides: {decider}."


def worse_and_better(comparison: Comparison) -> list[str]:
    """What got worse, and what got better, a sentence each; empty for unchanged outputs.

    A metric did if its loss or gain is significant, each metric taken alone
    (docs/definitions/comparisons.md#p-value).
    """
    if comparison.unchanged:
        return []
    alpha, sure = 1 - comparison.level, _surely_moved(comparison)
    return [
        _moved_metrics("Worse", [one for one in sure if (one.figure.delta or 0) < 0], alpha),
        _moved_metrics("Better", [one for one in sure if (one.figure.delta or 0) > 0], alpha),
    ]


def _surely_moved(comparison: Comparison) -> list[ComparedFigure]:
    alpha, moved = 1 - comparison.level, [one for one in rows(comparison) if one.figure.delta]
    return [one for one in moved if one.figure.p is not None and one.figure.p <= alpha]


def _others_moved(comparison: Comparison) -> bool:
    return any(not one.decides for one in _surely_moved(comparison))


def _moved_metrics(word: str, found: list[ComparedFigure], alpha: float) -> str:
    if not found:
        return f"{word} beyond chance: no metric."
    found.sort(key=lambda one: -abs(one.figure.delta or 0))
    named = [f"{one_line(one.name)} {signed(one.figure.delta)}" for one in found[:METRICS_NAMED]]
    named += [f"{len(found) - METRICS_NAMED:,} more"] if len(found) > METRICS_NAMED else []
    return f"{word}: {listed(named)} ({'each ' * (len(found) > 1)}taken alone, p ≤ {alpha:.2g})."


def policy_sentence(comparison: Comparison) -> str:
    """Which policy answered and why so, and what the answer would be by proof alone."""
    how, by_proof = comparison.decide, f"by proof alone: {comparison.proof}."
    odds = sorted(each for known in _probabilities(comparison) for each in known)
    if how.policy == "proof":
        sentence = "Policy proof: only what is proven counts."
    elif how.policy == "strict":
        sentence = f"Policy strict: what is not proven to be no worse fails; {by_proof}"
    elif not odds or comparison.unchanged:
        return f"Policy balanced; {by_proof}"
    else:
        between = " to ".join(dict.fromkeys((share(odds[0]), share(odds[-1]))))
        lost = f"{listed([one_line(name) for name in comparison.decided_by])} lost more than"
        sentence = (
            f"Policy balanced: {lost} {comparison.margin:g} with a probability of {between} (above "
            f"{share(how.costs.threshold)} it fails); {by_proof}"
        )
    return f"{sentence}{_wrong(comparison.wrong)}{_learned(comparison.prior)}"


def called(comparison: Comparison, side: str) -> str:
    """What people call a run of a comparison: its id, behind the name of its version if it has one."""
    run = comparison.head if side == "head" else comparison.base
    return wording.called(run, comparison.versions.get(side))


def sides(comparison: Comparison) -> tuple[str, str]:
    """Both runs with what they are called."""
    return f"head {called(comparison, 'head')}", f"base {called(comparison, 'base')}"


def questions_sentence(comparison: Comparison) -> str:
    """Which question the answer is to, and the answer to the other one; empty without questions."""
    other = [one for one in comparison.questions if one.about != comparison.decide.about]
    if not other:
        return ""
    words = _words(other[0].verdict, [other[0].probabilities]).lower()
    numbers = f"{words}, {signed(other[0].delta)} {signed_interval(other[0].ci95)}"
    if other[0].about == "these":
        text = f"This is about other cases like these. On these very cases, run again: {numbers}."
        contrary = other[0].verdict == "worse" and comparison.answer != "fail"
        return f"{text} If they are what matters, decide by them: --about these." if contrary else text
    return f"This is about these very cases, run again. On other cases like these: {numbers}."


def another_user_sentence(comparison: Comparison) -> str:
    """That another user model would change the difference by more than it is; empty if that is not known."""
    found = comparison.another_user
    if found is None or not found.larger or found.deviation is None or comparison.unchanged:
        return ""
    by_user = listed([f"{signed(delta)} with {one_line(user)}" for user, delta in found.users.items()])
    return (
        f"The difference is smaller than what another user model would change: {signed(found.delta)}, with a "
        f"standard deviation of {number(found.deviation)} between user models ({by_user})."
    )


def _wrong(rates: WrongRates | None) -> str:
    """How often the policy was wrong in trials; empty if unknown."""
    if rates is None:
        return ""
    kinds = [(rates.ship, rates.losses, "losses shipped"), (rates.block, 1 - rates.losses, "others blocked")]
    told = [f"{100 * rate:.0f} of {100 * all_:.0f} {what}" for rate, all_, what in kinds if rate]
    wrong = f"wrong in {100 * (rates.ship + rates.block):.0f} of 100" if told else "hardly ever wrong"
    open_ = f", and left {100 * rates.undecided:.0f} of 100 open" if rates.undecided else ""
    return f" With {rates.cases} cases it was {wrong}{f' ({listed(told)})' if told else ''} in trials{open_}."


def _learned(prior: DifferencePrior) -> str:
    """Where a prior comes from; empty for the default."""
    if not prior.comparisons:
        return ""
    return (
        f" Prior learned from {prior.comparisons} earlier comparisons of this suite: "
        f"{share(prior.unchanged)} unchanged, spread {prior.spread:.2f}."
    )


def _change(figure: MetricDelta) -> str:
    """``0.800 → 0.767, −0.033 [−0.123, +0.037]``."""
    interval = "" if figure.ci95 is None else f" {signed_interval(figure.ci95)}"
    return f"{number(figure.base)} → {number(figure.head)}, {signed(figure.delta)}{interval}"


def answer(comparison: Comparison, pairs: str = "", *, apart: bool = False) -> Answer:
    """The answer with its grounds; what was asked again; the answer to the other question; the policy.

    Args:
        comparison: The comparison.
        pairs: What was compared, where it is not said elsewhere; then the cases that broke are named, too.
        apart: Whether the verdict stands apart, in place of pass or fail. Elsewhere what got worse and better
            is left out if it is what decides alone, which the sentence has.
    """
    names = [] if comparison.confirmed or not pairs else cases_that_broke(comparison)
    moved = worse_and_better(comparison) if apart or _others_moved(comparison) else []
    grounds = (
        *moved,
        one_line(comparison.reason, at_most=2000),
        f"Broke: {listed(names)}." if names else "",
        confirmed_sentence(comparison),
        questions_sentence(comparison),
        another_user_sentence(comparison),
        policy_sentence(comparison),
        f"{pairs}." if pairs else "",
    )
    if not apart or comparison.unchanged:
        return Answer(answer=comparison.answer, sentence=answer_sentence(comparison), grounds=grounds)
    told, verdict = by_how_much(comparison), verdict_words(comparison)
    return Answer(answer=comparison.answer, sentence=told, grounds=grounds, words=verdict)


def confirmed_sentence(comparison: Comparison) -> str:
    """The further attempts that were made, what they cost, which cases broke, and which are open."""
    made = comparison.confirmed
    if made is None:
        return ""
    sides = (("base", made.base), ("head", made.head))
    told = [
        f"{each.attempts:,} of {word}{f' ({each.failed:,} failed)' * (each.failed > 0)}"
        for word, each in sides
    ]
    costs = [f"{word} {cost}" for word, each in sides if (cost := cost_of(each))]
    total = counted(made.base.attempts + made.head.attempts, "further attempt")
    sentences = [f"{total} were made: {' and '.join(told)}{f' (cost: {listed(costs)})' if costs else ''}."]
    states = comparison.moved_cases.states
    if broke := cases_that_broke(comparison):
        sentences.append(f"Broke: {listed(broke)}.")
    if left := [f"{states[word]:,} {word}" for word in ("flaky", "unclear") if states.get(word)]:
        sentences.append(f"Of the other cases that moved, {listed(left)}.")
    # Knowing these cases better tells hardly more about others only.
    end = "" if made.end == "cases" and comparison.decide.about == "these" else ENDS.get(made.end, "")
    return " ".join([*sentences, *([end] if end else [])])


def cases_that_broke(comparison: Comparison) -> list[str]:
    """The names of cases that broke, and how many further ones did."""
    changes = islice(comparison.moved_cases.each_change(), BROKE_NAMED)
    broke = [one_line(one.case) for one in changes if one.state == "broke"]
    more = comparison.moved_cases.states.get("broke", 0) - len(broke)
    return [*broke, *([f"{more:,} more"] if more > 0 else [])]


def cost_of(calls: Calls, *, times: float = 1.0) -> str:
    """Known cost of calls, times a factor: ``$0.12, 3,400 tokens``; empty if nothing is known."""
    parts = [] if calls.cost_usd is None else [dollars(calls.cost_usd * times)]
    parts += [] if calls.tokens is None else [f"{calls.tokens * times:,.0f} tokens"]
    return ", ".join(parts)


def pairs_compared(comparison: Comparison) -> str:
    """How many cases and attempts both runs have, and what they cost."""
    most = max(comparison.metrics.values(), key=lambda figure: figure.pairs)
    parts = [f"{counted(most.n, 'case')} in common", f"{counted(most.pairs, 'pair')} of attempts"]
    for word, cases in (("base", comparison.only_base), ("head", comparison.only_head)):
        if cases:
            parts.append(f"{counted(len(cases), 'case')} only in {word}")
    parts += [f"{word} cost {dollars(usd)}" for word, usd in comparison.cost_usd.items()]
    return " · ".join(parts)


def outlook(comparison: Comparison) -> list[str]:
    """What the answer does not say of each deciding metric yet: what would settle it, what it can detect."""
    if comparison.unchanged:
        return []
    said = answer_sentence(comparison)
    return [_outlook(name, comparison.metrics[name], said) for name in comparison.decided_by]


def _outlook(name: str, figure: MetricDelta, said: str) -> str:
    parts = []
    if figure.missing:
        parts.append(f"{counted(figure.missing, 'pair')} lack a value, which could change the answer")
    settled_by = further_cases_needed(figure)
    if settled_by is not None and settled_by not in said:
        parts.append(settled_by)
    if figure.mde is not None:
        parts.append(
            f"{counted(figure.n, 'case')} detect a difference of {number(figure.mde)} with 80 % power"
        )
    elif figure.method in {METHOD, *OF_A_QUESTION}:
        parts.append(f"interval by {figure.method}")
    elif figure.ci95 is not None:
        parts.append("every case changed equally, so the interval depends only on the number of cases")
    else:
        parts.append("one group gives no interval")
    return f"{one_line(name)}: {'; '.join(parts)}"


def what_is_missing(comparison: Comparison) -> str:
    """What is missing or in error in either run, in one line."""
    parts = [
        f"{side}: {', '.join(f'{count:,} {one_line(name)}' for name, count in counts.items())}"
        for side, counts in comparison.missing.items()
    ]
    why = [one_line(line, at_most=300) for line in comparison.warnings if " was not judged" in line]
    return " ".join([*why, f"missing or in error: {'; '.join(parts)}"])


def rule(comparison: Comparison) -> str:
    """What the mark of a metric means."""
    worse = f"✗ proven worse: a loss with p ≤ {1 - comparison.level:.3g}"
    return f"✓ proven no worse: interval above −{comparison.margin:g} · {worse} · ? neither"


def note(comparison: Comparison) -> str:
    """How the intervals were computed."""
    figures = list(comparison.metrics.values())
    methods = dict.fromkeys(figure.method for figure in figures if figure.method)
    figures = [figure for figure in figures if figure.n] or figures
    fewest, most = min(figure.groups for figure in figures), max(figure.groups for figure in figures)
    kind = intervals_label(comparison.level, fewest_groups=fewest)
    groups = counted(most, "group") if fewest == most else f"{fewest:,} to {most:,} groups"
    own = " (what decides: by the distribution of its interval)" * any(
        each in OF_A_QUESTION for each in methods
    )
    return f"{kind}: {'; '.join([*methods, groups])}; p by sign flips{own}"


TERMS = (
    "groups: cases about one thing, which count together · p (Holm): adjusted for the number of metrics · "
    "needs: further cases that would settle it"
)
"""What the heads of the table mean."""

NAME_CHARS = 40


_VERBS = {"message": "→", "call": "calls", "order": "then"}


def edge_text(change: EdgeChange) -> str:
    """``a → b`` for a message, ``a calls b`` for a call, ``a then b`` for the order of tools."""
    source = "nobody" if change.source is None else one_line(change.source, at_most=NAME_CHARS)
    return f"{source} {_VERBS[change.kind]} {one_line(change.target, at_most=NAME_CHARS)}"


def change_word(change: EdgeChange | PaceChange) -> str:
    """What changed, with a question mark if it may be chance."""
    return change.became if change.sure or change.became == "same" else f"{change.became}?"


def pace_tone(change: PaceChange) -> Tone:
    """Bad if it became slower, good if it became faster, quiet if that may be chance."""
    return ("bad" if change.became == "slower" else "good") if change.sure else "quiet"


def factor(value: float) -> str:
    """``×1.35``."""
    return f"×{value:.2f}"


def factors(interval: tuple[float, float] | None) -> str:
    """``[×1.10, ×1.66]``, or a dash."""
    return NOTHING if interval is None else f"[{factor(interval[0])}, {factor(interval[1])}]"


def traces_compared(graphs: GraphComparison) -> str:
    """How many pairs of attempts have traces on both sides."""
    compared = f"{counted(graphs.attempts, 'pair')} of attempts with traces, {counted(graphs.cases, 'case')}"
    return f"{compared}; {graphs.without_trace:,} pairs without" if graphs.without_trace else compared


def edges_changed(graphs: GraphComparison) -> str:
    """Counts of the edges that changed beyond chance."""
    sure: Counter[str] = Counter(one.became for one in graphs.edges if one.sure)
    sure.update(one.became for one in graphs.paces if one.sure)
    parts = [
        f"{sure[word]:,} {what}"
        for word, what in (
            ("appeared", "appeared"),
            ("vanished", "vanished"),
            ("more", "became more frequent"),
            ("fewer", "became less frequent"),
            ("slower", "slowed down"),
            ("faster", "sped up"),
        )
        if sure[word]
    ]
    changes = ", ".join(parts) or "nothing changed beyond chance"
    return f"Among {counted(len(graphs.edges) + graphs.edges_left_out, 'edge')}: {changes}"


def rows_left_out(graphs: GraphComparison, shown: int) -> str:
    """What the tables leave out, or an empty text."""
    edges = max(0, len(graphs.edges) - shown) + graphs.edges_left_out
    paces = max(0, len(graphs.paces) - shown) + graphs.paces_left_out
    parts = [counted(edges, "further edge")] if edges else []
    parts += (
        [f"times of {counted(paces, 'further tool or agent', 'further tools and agents')}"] if paces else []
    )
    return f"{' and '.join(parts)} not shown (--json has them)" if parts else ""


def graph_note(graphs: GraphComparison) -> str:
    """How the numbers of the graphs were computed."""
    return (
        f"times per attempt, averaged by case; {share(graphs.level)} intervals by cluster t, "
        f"p by exact sign tests over {counted(graphs.groups, 'group')}; ? may be chance"
    )
