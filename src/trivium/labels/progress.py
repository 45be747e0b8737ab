"""Reports the progress of a queue, and the estimate from its labels so far."""

from collections import Counter
from typing import Literal

import msgspec
import numpy as np

from trivium.labels.queue import LabelQueues
from trivium.labels.tasks import decided_by, people_say, sampled
from trivium.store.labels import NOBODY, LabelQueue, queue_transaction
from trivium.trust.active_inference import ActiveMean, active_mean
from trivium.trust.active_sampling import Sampling
from trivium.trust.certification import fewest_labels
from trivium.trust.cluster_bootstrap import Groups

QueueState = Literal["open", "done", "closed"]


def state_of(queue: LabelQueue, complete: int) -> QueueState:
    """Whether a queue still asks: ``done`` if every item has its answers, until one is taken back."""
    if queue.closed is not None:
        return "closed"
    return "done" if complete >= queue.population else "open"


def certificate_hint(queue: LabelQueue, labelled: int) -> str:
    """Say how far a queue is from a certificate, without what the judge said: labellers may read it.

    Args:
        queue: The queue.
        labelled: Items with a label.

    Returns:
        A sentence; empty for labels that certify nothing.
    """
    if queue.settings.volunteered:
        return ""
    if queue.settings.uncertainty and not queue.settings.uniform:
        return "For a certificate make a queue that asks at random throughout: of this one few labels count."
    fewest = fewest_labels()
    if queue.population < fewest:
        return f"A certificate takes at least {fewest} labels: this queue has too few items for one."
    if labelled < fewest:
        return (
            f"A certificate takes at least {fewest} labels, and more if the judge errs: "
            f"{fewest - labelled} to go at least."
        )
    return "These labels may do for a certificate, if the judge errs rarely."


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a queue.

    Attributes:
        queue: The queue.
        drawn: Items that were drawn.
        answered: Items with an answer, including those of which nobody can tell.
        cannot_tell: Items of which nobody can tell.
        wanted: Answers of further people that drawn items still want.
        in_hand: Items that somebody has in hand now.
        state: Whether it still asks.
        people: Number of answers by person, most first; decisions on others' answers are not counted.
        decided: Number of items on which each person decided.
        left_out: Number of answers by person that enter nothing, because nobody asked for them: the item had
            its answers, or others had it in hand.
        crowded: Items with more answers than people were asked for, which older versions took of anybody;
            all of them count.
        estimate: People's mean score, estimated from the answers; None for a queue of volunteered labels.
        reason: Why there is no estimate, or None.
    """

    queue: LabelQueue
    drawn: int
    answered: int
    cannot_tell: int
    wanted: int
    in_hand: int
    state: QueueState
    people: dict[str, int]
    decided: dict[str, int]
    left_out: dict[str, int]
    crowded: int
    estimate: ActiveMean | None
    reason: str | None = None


def progress_of(queues: LabelQueues, id: str) -> Progress:  # noqa: A002 - the field's name in the record
    """Count what a queue has, and estimate from it.

    Raises:
        InputError: If there is no such queue.
    """
    with queue_transaction(queues.store, id) as stored:
        queue = stored.queue
        sampling, labels = sampled(stored)
        missing = stored.missing()
        in_hand = sum(stored.reserved(after=queues.now()).values())
        left_out, crowded = stored.not_asked_for(), stored.count_crowded()
    answers = people_say(labels, sampling)
    given = (label for label in labels if label.answer != "skip" and label.how != "adjudicated")
    people = Counter(label.by for label in given if label.by != NOBODY)
    return Progress(
        queue=queue,
        drawn=len(sampling.draws),
        answered=len(answers),
        cannot_tell=sum(answer is None for answer in answers.values()),
        wanted=sum(missing.values()),
        in_hand=in_hand,
        state=state_of(queue, len(sampling.draws) - len(missing)),
        people=dict(people.most_common()),
        decided=dict(Counter(decided_by(labels).values()).most_common()),
        left_out=left_out,
        crowded=crowded,
        estimate=None if queue.settings.volunteered else estimate_of(queues, queue, sampling, answers),
        reason=queue.settings.volunteered or None,
    )


def estimate_of(
    queues: LabelQueues, queue: LabelQueue, sampling: Sampling, answers: dict[int, float | None]
) -> ActiveMean:
    """Estimate people's mean score of the items of a queue (docs/definitions/agreement.md#active-mean)."""
    items = queues.population(queue)
    count = int(items.group.max()) + 1
    groups = Groups(ids=tuple(map(str, range(count))), codes=items.group.astype(np.intp))
    return active_mean(sampling, items.prediction, answers, groups)
