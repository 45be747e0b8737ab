"""Says whether a certificate still holds for a run, and why not.

Definition: docs/definitions/calibration.md#certificate-check.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trivium.errors import InputError
from trivium.labels.joining import labels_for
from trivium.runs.certificates import ACCEPTED, EXPIRED, Certificates, is_due, marks, unmarked
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.certificate import read_certificate

LEVEL = 0.01
"""Largest probability of either sign of drift by chance alone, where there is none."""


class CertificateCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a certificate holds for the judgements of a run.

    Attributes:
        certificate: Its file.
        run: Id of the run.
        dimension: The dimension.
        expired: Why it no longer holds; empty if nothing speaks against it.
        judgements: Judgements of the run.
        accepted: Those that it would accept.
        accepted_then: Share that it accepted when it was made; None if it does not say.
        labelled: Accepted judgements with a label, one a group.
        wrong: Wrong ones among them.
        epsilon: Largest share of wrong ones that it promises.
        notes: Reservations about the labels; why there are none.
    """

    certificate: str
    run: str
    dimension: str
    expired: tuple[str, ...]
    judgements: int
    accepted: int
    accepted_then: float | None
    labelled: int
    wrong: int
    epsilon: float
    notes: tuple[str, ...]


def check_certificate(store: Store, path: Path, run: RunRecord) -> CertificateCheck:
    """Check a certificate against the judgements of a run, and people's labels of them.

    It has expired if the run was judged in another way (model, prompt, rubric, scale, samples); if more of
    the accepted judgements are wrong by the labels in the store than it promises, by an exact binomial test;
    or if it accepts another share of the judgements than when it was made, by Fisher's exact test: then the
    judge's confidences mean something else, or the cases are others. Each test is at level 1 %, and takes
    one judgement of each group, as those of one group are not independent.

    Raises:
        InputError: If it is not a certificate, or the run has no judgement of its dimension.
    """
    certificate = read_certificate(path)
    settings = run.settings
    marking = Certificates(settings, run.provenance, [certificate])
    name = certificate.dimension
    try:
        labels = labels_for(store, run, name)
        notes = labels.notes
    except InputError as error:
        labels, notes = None, (str(error),)
    groups = list(store.groups(run.suite, settings.group))
    seen: set[str] = set()
    labelled_groups: set[str] = set()
    reasons: Counter[str] = Counter()
    judgements = accepted = firsts = accepted_firsts = labelled = wrong = 0
    for stored in store.evaluations(run):
        evaluation, group = stored.evaluation, groups[stored.position]
        score = evaluation.scores.get(name)
        if score is None or not is_due(score):
            continue
        mark = marks(marking.marked({name: unmarked(score)}, group))[name]
        judgements += 1
        if (mark["why"] or "").startswith(EXPIRED):
            reasons[mark["why"].removeprefix(EXPIRED)] += 1
        takes = mark["answer"] == ACCEPTED
        accepted += takes
        if group not in seen:
            seen.add(group)
            firsts += 1
            accepted_firsts += takes
        truth = None if labels is None else labels.value((evaluation.case, evaluation.repeat, name))
        if takes and truth is not None and score.value is not None and group not in labelled_groups:
            labelled_groups.add(group)
            labelled += 1
            wrong += abs(score.value - truth) > certificate.tolerance + 1e-9
    if not judgements:
        raise InputError(f"run {run.id}", f'has no judgement of "{name}", which the certificate is of')
    expired = [f"{count:,} judgements: {why}" for why, count in reasons.most_common()]
    expired += _contradicted(wrong, labelled, certificate.epsilon)
    share_then, judged_then = certificate.coverage, certificate.groups
    if share_then is not None and judged_then and not reasons:
        expired += _shifted(accepted_firsts, firsts, share_then, judged_then)
    return CertificateCheck(
        certificate=path.name,
        run=run.id,
        dimension=name,
        expired=tuple(expired),
        judgements=judgements,
        accepted=accepted,
        accepted_then=share_then if judged_then else None,
        labelled=labelled,
        wrong=wrong,
        epsilon=certificate.epsilon,
        notes=tuple(notes),
    )


def _contradicted(wrong: int, labelled: int, epsilon: float) -> Iterator[str]:
    from scipy.stats import binomtest

    if labelled and binomtest(wrong, labelled, epsilon, alternative="greater").pvalue < LEVEL:
        yield (
            f"{wrong:,} of {labelled:,} accepted judgements are wrong by people's labels; it promises at "
            f"most {100 * epsilon:g} %"
        )


def _shifted(accepted: int, judged: int, share_then: float, judged_then: int) -> Iterator[str]:
    from scipy.stats import fisher_exact

    taken = round(share_then * judged_then)
    if fisher_exact([[accepted, judged - accepted], [taken, judged_then - taken]]).pvalue < LEVEL:
        yield (
            f"it accepts {100 * accepted / judged:.0f} % of the judgements, and accepted "
            f"{100 * share_then:.0f} % of {judged_then:,} when it was made: the confidences or the cases are "
            "others"
        )
