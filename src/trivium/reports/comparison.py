"""A comparison in words, as blocks, and as Markdown and a page of its own."""

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from trivium.errors import InputError
from trivium.reports import wording
from trivium.reports.document.blocks import (
    Answer,
    Block,
    Column,
    Drawing,
    Mark,
    Paragraph,
    Picture,
    Remarks,
    Section,
    Surface,
    Table,
    Title,
    Toned,
    table,
)
from trivium.reports.graph_diff import graph_changes
from trivium.reports.moved_cases.shown import all_cases, first_cases
from trivium.reports.wording import (
    NOTHING,
    dollars,
    intervals_label,
    number,
    probability,
    share,
    signed,
    signed_interval,
)
from trivium.runs.comparing.comparison import OF_A_QUESTION, Calls, Comparison, MetricDelta, Word
from trivium.runs.comparing.decision import listed
from trivium.runs.comparing.moved_cases import MovedCases
from trivium.runs.summary import further_cases_needed
from trivium.safe_text import one_line
from trivium.store.records import End
from trivium.trust.decision import DifferencePrior
from trivium.trust.sample_size import MOST_NEEDED
from trivium.trust.sequential_mean import METHOD
from trivium.values import counted

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

TERMS = (
    "groups: cases about one thing, which count together · p (Holm): adjusted for the number of metrics · "
    "needs: further cases that would settle it"
)
"""What the heads of the table mean."""

FOREST_NOTE = (
    "Each dot is the mean difference over the cases that both runs have, each line its interval. A metric is "
    "proven to be no worse if the whole line lies right of the dashed margin, and worse if its loss is "
    "significant (p). Metrics in bold decide."
)

FIGURES_NOTE = (
    "Detectable: smallest true difference found with 80 % power. Needs: further cases that would settle it. "
    "p (Holm) is adjusted for the number of metrics. Share > 0: share of the resampled differences above 0."
)


def describe(
    comparison: Comparison,
    surface: Surface,
    *,
    cases: int | None = None,
    moved: Iterable[Block] | None = None,
) -> Iterator[Block]:
    """Yield the blocks of a comparison: the answer, what changed, the figures, the reservations.

    Args:
        comparison: The comparison.
        surface: Where it is shown.
        cases: Largest number of moved cases with their texts; None for as many as are usual there.
        moved: The cases that moved, for a page.
    """
    pairs = pairs_compared(comparison)
    if surface != "page":  # a page has them in its head
        beside = " against ".join(called(comparison, side) for side in ("head", "base"))
        yield Title(text=comparison.suite, beside=beside, answer=comparison.answer)
        if surface != "comment":
            yield Paragraph((pairs,))
    drawn = surface in {"page", "notebook"}
    yield answer(comparison, pairs if surface == "comment" else "", apart=drawn)
    if drawn:
        yield _differences(comparison)
    if words := what_moved(comparison.moved_cases):
        found = first_cases(comparison.moved_cases, surface, cases) if moved is None else moved
        yield Section(title="what changed", beside=words, blocks=found, key="moved")
    if surface == "page":
        explained = f"{note(comparison)}. {FIGURES_NOTE}"
        yield Section(title="metrics", blocks=[figures(comparison, explained)], key="figures")
    else:
        yield figures(comparison)
    if comparison.slices:
        from trivium.reports.slices import compared_slices

        for place, by in enumerate(comparison.slices, 1):
            yield compared_slices(comparison, by, surface, place=place)
    if comparison.graphs is not None and comparison.graphs.cases:
        yield graph_changes(comparison.graphs, surface)
    yield from _reservations(comparison, surface)


def _differences(comparison: Comparison) -> Section:
    from trivium.reports.forest import forest

    drawn: list[Block] = [
        Drawing((Picture(forest(rows(comparison), comparison.margin)),)),
        Paragraph((FOREST_NOTE,), "quiet"),
    ]
    return Section(title="difference of each metric", blocks=drawn, key="differences")


def _reservations(comparison: Comparison, surface: Surface) -> Iterator[Block]:
    if surface == "page":
        if remarks := (*comparison.warnings, *outlook(comparison)):
            yield Section(title="how to read this", blocks=[Remarks(remarks)])
        yield from _unpaired(comparison)
        return
    yield Paragraph(tuple(outlook(comparison)))
    yield Remarks(comparison.warnings)
    runs = [", ".join(sides(comparison))] if surface == "comment" else []
    lines = (rule(comparison), note(comparison), TERMS, *runs)
    yield Paragraph(lines, "quiet")


def _unpaired(comparison: Comparison) -> Iterator[Section]:
    for side, cases in (("base", comparison.only_base), ("head", comparison.only_head)):
        if cases:
            names = Paragraph((", ".join(one_line(case) for case in cases),))
            yield Section(title=f"cases only in {side} ({len(cases):,})", blocks=[names])


class ComparedFigure(NamedTuple):
    """A figure of a comparison, with its names (``pass_rate = composite``) and whether it decides."""

    name: str
    figure: MetricDelta
    decides: bool


def figures(comparison: Comparison, note: str = "") -> Table:
    """The table of a comparison's figures, those that decide first, with a note below it."""
    columns: list[Column[ComparedFigure]] = [
        Column("proven", lambda row: Mark(row.figure.answer, PROVEN[row.figure.answer]), "mark"),
        Column("metric", lambda row: Toned(row.name, "strong" if row.decides else ""), "name"),
        Column("base", lambda row: number(row.figure.base), where="wide"),
        Column("head", lambda row: number(row.figure.head), where="wide"),
        Column("delta", lambda row: Toned(signed(row.figure.delta), "strong")),
        Column("interval", lambda row: interval_of(row.figure, comparison), "interval"),
        Column("p", lambda row: probability(row.figure.p), where="page"),
        Column("p (Holm)", lambda row: probability(row.figure.p_holm)),
        Column("share > 0", lambda row: number(row.figure.share_positive), where="page"),
        Column("wins/losses/ties", lambda row: wins_losses_ties(row.figure), "tally", brief="+/−/="),
        Column("detectable", lambda row: number(row.figure.mde), where="page"),
        Column("needs", lambda row: further_cases(row.figure)),
        Column("cases", lambda row: f"{row.figure.n:,}", where="page"),
        Column("groups", lambda row: f"{row.figure.groups:,}", where="page"),
    ]
    return table(columns, rows(comparison), label="Metrics", notes=(note,))


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


def interval_of(figure: MetricDelta, comparison: Comparison) -> str:
    """The interval of a difference; ``identical`` if both outputs and values are the same."""
    if comparison.unchanged and figure.n and not (figure.wins or figure.losses):
        return "identical"
    return signed_interval(figure.ci95)


def wins_losses_ties(figure: MetricDelta) -> str:
    """Wins, losses and ties."""
    return f"{figure.wins:,}/{figure.losses:,}/{figure.ties:,}"


def further_cases(figure: MetricDelta) -> str:
    """Number of further cases that would settle the comparison, for a table."""
    if figure.answer != "inconclusive":
        return ""
    if figure.needs_cases is None:
        return NOTHING if figure.ci95 is None else f">{MOST_NEEDED:,}"
    return f"{figure.needs_cases:,}"


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


def answer_sentence(comparison: Comparison) -> str:
    """The verdict, by how much, and what would prove it. Empty for unchanged outputs."""
    return "" if comparison.unchanged else f"{verdict_words(comparison)}: {by_how_much(comparison)}"


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


def _change(figure: MetricDelta) -> str:
    """``0.800 → 0.767, −0.033 [−0.123, +0.037]``."""
    interval = "" if figure.ci95 is None else f" {signed_interval(figure.ci95)}"
    return f"{number(figure.base)} → {number(figure.head)}, {signed(figure.delta)}{interval}"


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
    return f"{sentence}{_wrong(comparison)}{_learned(comparison.prior)}"


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


def _wrong(comparison: Comparison) -> str:
    """How often the policy was wrong in trials; empty if unknown."""
    rates, deciding = comparison.wrong, comparison.metrics[comparison.decided_by[0]]
    if rates is None:
        return ""
    kind = "cases" if deciding.groups == deciding.n else "groups"
    here = "" if deciding.groups == rates.cases else f" (here {deciding.groups:,} {kind})"
    kinds = [(rates.ship, rates.losses, "losses shipped"), (rates.block, 1 - rates.losses, "others blocked")]
    told = [f"{100 * rate:.0f} of {100 * all_:.0f} {what}" for rate, all_, what in kinds if rate]
    wrong = f"wrong in {100 * (rates.ship + rates.block):.0f} of 100" if told else "hardly ever wrong"
    open_ = f", and left {100 * rates.undecided:.0f} of 100 open" if rates.undecided else ""
    said = f"it was {wrong}{f' ({listed(told)})' if told else ''}{open_}"
    return f" In trials with {rates.cases} independent cases{here} {said}."


def _learned(prior: DifferencePrior) -> str:
    """Where a prior comes from; empty for the default."""
    if not prior.comparisons:
        return ""
    return (
        f" Prior learned from {prior.comparisons} earlier comparisons of this suite: "
        f"{share(prior.unchanged)} unchanged, spread {prior.spread:.2f}."
    )


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


def what_moved(moved: MovedCases) -> str:
    """How many cases moved, in which states and directions, and by which metric."""
    if not moved.compared:
        return ""
    if not len(moved):
        return f"No case moved: {_names(moved.by)} of all {counted(moved.compared, 'case')} stayed the same"
    parts = [
        f"by {_by(name)}: {better:,} better, {worse:,} worse"
        for name, (better, worse) in moved.counts().items()
    ]
    states = ", ".join(f"{count:,} {state}" for state, count in moved.states.items() if count)
    if states and moved.earlier:
        states += f" (with {counted(moved.earlier, 'attempt')} of other runs of the same version)"
    states = f"moved: {states}" if states else "moved"
    return f"{len(moved):,} of {counted(moved.compared, 'case')} {' · '.join([states, *parts])}"


def _by(name: str) -> str:
    return "pass or fail" if name == "pass_rate" else f"{one_line(name)} alone"


def _names(names: Iterable[str]) -> str:
    return " and ".join(one_line(name).replace("_", " ") for name in names)


def render_markdown(comparison: Comparison, *, cases: int | None = None) -> str:
    """The comparison as GitHub-flavoured Markdown, short enough for a comment; untrusted text is escaped.

    Args:
        comparison: The comparison.
        cases: Largest number of moved cases shown with their outputs.
    """
    from trivium.reports.document.markdown import markdown

    return markdown(describe(comparison, "comment", cases=cases))


def write_html(
    path: str | os.PathLike[str], comparison: Comparison, *, links: Mapping[str, str] | None = None
) -> None:
    """Write the comparison as an HTML page, with all cases that moved.

    The cases are read from the stores and written one after another, so memory does not grow with them.

    Args:
        path: The file; an existing file is replaced only when the new one is complete.
        comparison: The comparison.
        links: Pages to link to, by what they show: ``base`` and ``head`` are the pages of the runs, which
            every case links to; any other name is the text of a further link. Addresses are relative to
            this page, or begin with ``https:`` or ``http:``.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
        InputError: If the file cannot be written, or a link is of another kind.
        StoreError: If the cases cannot be read.
    """
    from trivium.reports.html.shell import checked_link, page, write_atomically

    target = Path(path)
    links = {name: checked_link(link) for name, link in (links or {}).items()}
    runs = {"base": "Run base", "head": "Run head"}
    parts = page(
        describe(comparison, "page", moved=all_cases(comparison.moved_cases, links)),
        brand="Trivium comparison",
        heading=comparison.suite,
        answer=verdict_words(comparison),
        meta=[*sides(comparison), pairs_compared(comparison)],
        links={runs.get(name, name): link for name, link in links.items()},
    )
    try:
        write_atomically(target, parts)
    except OSError as error:
        raise InputError(str(target), f"cannot be written: {error.strerror or error}") from error


def write_chart(path: Path, comparison: Comparison) -> None:
    """Write the forest plot of a comparison to a file, in default colours on white.

    Raises:
        InputError: If the file name ends neither in .svg nor in .png.
        MissingExtra: If the name ends in .png and ``trivium[report]`` is not installed.
        OSError: If the file cannot be written.
    """
    from trivium.reports.drawings.svg import write_picture
    from trivium.reports.forest import forest

    write_picture(path, forest(rows(comparison), comparison.margin))
