"""Computes the answer of a run against the run before it, once, and puts it in words.

Definition: docs/definitions/comparisons.md#run-before.
"""

from trivium.errors import InputError
from trivium.reports.comparison import verdict_words
from trivium.reports.wording import signed, signed_interval
from trivium.runs.comparing.compare import compare
from trivium.runs.run import Run
from trivium.safe_text import one_line
from trivium.store.browsing.before import AgainstBefore, Before, before, keep_answer
from trivium.store.store import Store


def answer_before(store: Store, run: str) -> AgainstBefore | None:
    """The answer of a run against the run before it, computed now if it is not kept; None without one.

    Args:
        store: The store, which keeps the answer if it may be written.
        run: Id of the run.
    """
    pair = before(store, [run]).get(run)
    if pair is None or pair.answer is not None:
        return None if pair is None else pair.answer
    answer = _compared(store, pair)
    if not store.read_only:
        keep_answer(store, pair, answer)
    return answer


def _compared(store: Store, pair: Before) -> AgainstBefore:
    try:
        found = compare(Run.load(pair.base, store=store), Run.load(pair.run, store=store))
    except InputError as error:
        return AgainstBefore(
            base=pair.base, verdict=None, answer=None, words=one_line(str(error), at_most=300)
        )
    name = (*found.failing, *found.decided_by)[0]
    low, high = found.metrics[name].ci95 or (None, None)
    return AgainstBefore(
        base=pair.base,
        verdict=found.verdict,
        answer=found.answer,
        words=verdict_words(found),
        metric=name,
        delta=found.metrics[name].delta,
        low=low,
        high=high,
    )


def figure_of(answer: AgainstBefore) -> str:
    """``pass_rate +0.100 [−0.195, +0.352]``; empty if there is no figure."""
    if answer.delta is None:
        return ""
    ends = None if answer.low is None or answer.high is None else (answer.low, answer.high)
    figure = f"{one_line(answer.metric or '')} {signed(answer.delta)}"
    return figure if ends is None else f"{figure} {signed_interval(ends)}"
