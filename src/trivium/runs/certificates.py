"""Applies certificates: decides which judgements are accepted without a person.

Definition: docs/definitions/calibration.md#accepted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from trivium.errors import TrustError
from trivium.metrics.evaluation import is_missing
from trivium.metrics.metric import Score
from trivium.metrics.registry import ACCEPTED as GATE
from trivium.runs.case_values import Clusters
from trivium.runs.columns import Column
from trivium.runs.summary import Acceptance, summary_of
from trivium.store.records import Provenance, RunRecord
from trivium.store.store import Store
from trivium.suites.certificate import JudgeCertificate, JudgedBy, loaded
from trivium.suites.rubrics.built_in import built_in_rubrics
from trivium.suites.rubrics.rubric import Rubric
from trivium.suites.settings import Settings
from trivium.values import counted, dict_, is_number, json_text, record_of

if TYPE_CHECKING:
    from trivium.trust.calibration.calibrator import Calibrator

ACCEPTED, TO_PEOPLE = "accepted", "to people"

MARK = "acceptance"
"""Key in the detail of a score: ``answer``, ``confidence`` and ``why``."""

STATED = "confidence"
"""Name of the confidence that a judge states itself."""

EXPIRED = "expired: "
"""Prefix of the reason that a certificate does not apply to a judgement."""

WHYS_SHOWN = 20
"""Most reasons that a summary lists, by frequency."""


def certificates_in(settings: Settings) -> tuple[JudgeCertificate, ...]:
    """Return the certificates that a suite applies."""
    return () if settings.judge is None else loaded(settings.judge.certificate)


LIFETIME = 0.01
"""Probability that a certificate ever expires by its accepted share, in all runs, although nothing moved."""

DRIFT = f"{EXPIRED}it accepts "
"""How the reason begins if the accepted share moved."""


class AcceptedShare:
    """Watches, judgement by judgement, whether a certificate accepts the share that it did when it was made.

    Definition: docs/definitions/calibration.md#accepted-share.

    If it does not, the judge's confidences mean something else, or the cases are others. The share then has
    an exact interval (Clopper & Pearson) at half of the level; the other half is for the judgements since,
    whose share is compared with that interval by a test that holds at every look (``trust.sequential_mean``).
    The k-th run under a certificate has the level ``LIFETIME`` / (k (k + 1)), so all runs together have
    ``LIFETIME``, also if they ask the same cases again and again.

    Args:
        certificate: The certificate.
        earlier: Number of earlier runs under it.
        moved: Why it expired in one of them, or None.

    Attributes:
        moved: Why the certificate has expired, or None.
    """

    def __init__(self, certificate: JudgeCertificate, *, earlier: int = 0, moved: str | None = None) -> None:
        self.moved = moved
        self._groups: set[str] = set()
        self._accepted = 0
        self._share, self._n = certificate.coverage, certificate.groups
        self._tests: tuple[Any, Any] | None = None
        if self._share is None or not self._n or certificate.threshold is None:
            return
        # Imported here, so that a run without certificates does not wait for the import.
        from scipy.special import betaincinv

        from trivium.trust.sequential_mean import SequentialMean

        level = LIFETIME / ((earlier + 1) * (earlier + 2))
        taken, tail = round(self._share * self._n), level / 4
        low = float(betaincinv(taken, self._n - taken + 1, tail)) if taken else 0.0
        high = float(betaincinv(taken + 1, self._n - taken, 1 - tail)) if taken < self._n else 1.0
        self._tests = SequentialMean(low, alpha=level / 2), SequentialMean(high, alpha=level / 2)

    def add(self, group: str, *, accepted: bool) -> None:
        """Add a judgement; of each group the first counts, as those of one group are not independent."""
        if self._tests is None or self.moved is not None or group in self._groups:
            return
        self._groups.add(group)
        self._accepted += accepted
        below, above = self._tests
        below.bet(float(accepted))
        above.bet(float(accepted))
        if below.at_most or above.at_least:
            judged = len(self._groups)
            now, then = 100 * self._accepted / judged, 100 * (self._share or 0)
            self.moved = (
                f"{DRIFT}{now:.0f} % of the first {judged:,} judgements, and accepted {then:.0f} % of "
                f"{self._n:,} when it was made: the confidences or the cases are others"
            )


def drift_before(store: Store, settings: Settings) -> dict[str, AcceptedShare]:
    """By dimension, the accepted shares of the certificates of a suite, after the runs so far.

    A certificate that expired because its accepted share moved stays so.
    """
    found = {}
    for certificate in certificates_in(settings):
        applied = [
            acceptance
            for summary in map(summary_of, store.runs())
            if summary is not None
            and (acceptance := summary.acceptance.get(certificate.dimension)) is not None
            and (acceptance.certificate, acceptance.threshold, acceptance.epsilon)
            == (certificate.name, certificate.threshold, certificate.epsilon)
        ]
        reasons = [why for each in applied for why in each.why if why.startswith(DRIFT)]
        moved = next(iter(reasons), None)
        found[certificate.dimension] = AcceptedShare(certificate, earlier=len(applied), moved=moved)
    return found


class Certificates:
    """Marks the judgements of a run as accepted, or as going to people.

    Args:
        settings: Settings of the run.
        provenance: Provenance of the run, for the digests of its rubrics.
        certificates: Certificates that replace those of the settings.
        before: Result of :func:`drift_before`; None does not watch the accepted shares.
    """

    def __init__(
        self,
        settings: Settings,
        provenance: Provenance,
        certificates: Sequence[JudgeCertificate] | None = None,
        *,
        before: Mapping[str, AcceptedShare] | None = None,
    ) -> None:
        self._by_dimension = {
            each.dimension: _Applied(
                each,
                judging_conditions(each.dimension, settings, provenance),
                None if before is None else before[each.dimension],
            )
            for each in (certificates_in(settings) if certificates is None else certificates)
        }

    def marked(self, scores: Mapping[str, Score], group: str) -> Mapping[str, Score]:
        """Add the decision on each certified dimension to the ``detail`` of its score.

        Args:
            scores: Scores of an attempt by name.
            group: The cluster of its case; if the calibrator was fitted on it, the model fitted without this
                cluster is used.
        """
        marked = {
            name: msgspec.structs.replace(score, detail=score.detail | {MARK: applied.mark(score, group)})
            for name, applied in self._by_dimension.items()
            if (score := scores.get(name)) is not None and is_due(score)
        }
        return {**scores, **marked} if marked else scores


class _Applied:
    """A certificate applied to the judgements of a run."""

    def __init__(
        self,
        certificate: JudgeCertificate,
        conditions: JudgedBy,
        share: AcceptedShare | None,
    ) -> None:
        self._certificate = certificate
        self._expired = next(expiries(certificate, conditions), None)
        self._share = share

    def mark(self, score: Score, group: str) -> dict[str, Any]:
        """Return ``answer`` (accepted or to people), ``confidence`` and ``why`` it goes to people."""
        if score.status != "ok" or score.value is None:
            abstained = score.status == "abstained"
            if abstained and self._share is not None and self._expired is None:
                self._share.add(group, accepted=False)
            why = "the judge abstained" if abstained else f"there is no judgement ({score.status})"
            return {"answer": TO_PEOPLE, "confidence": None, "why": why}
        try:
            confidence: float | None = self._confidence(score, group)
            failure: str | None = None
        except TrustError as error:
            confidence, failure = None, f"its confidence cannot be computed: {error}"
        other = self._expired or self._other_judge(score.detail)
        reason = other or failure or self._under_threshold(confidence)
        if self._share is not None and other is None:
            self._share.add(group, accepted=reason is None)
            reason = self._share.moved or reason
        return {"answer": TO_PEOPLE if reason else ACCEPTED, "confidence": confidence, "why": reason}

    def _other_judge(self, detail: Mapping[str, Any]) -> str | None:
        """Explain why a certificate does not apply to the judge of a judgement; None if it applies."""
        judged_by = self._certificate.judged_by
        if (model := detail.get("model")) not in judged_by.models:
            return f"{EXPIRED}judged by {model}, and the certificate is of {_listed(judged_by.models)}"
        if (prompt := detail.get("prompt")) not in judged_by.prompts:
            return f"{EXPIRED}prompt or rubric differ ({prompt}, certified: {_listed(judged_by.prompts)})"
        return None

    def _under_threshold(self, confidence: float | None) -> str | None:
        from trivium.trust.arrays import without_noise

        threshold = self._certificate.threshold
        if threshold is None:
            return "nothing was certified"
        if confidence is None or without_noise(confidence) < without_noise(threshold):
            return f"{self._certificate.confidence} is under the threshold {threshold:.6g}"
        return None

    @cached_property
    def _calibrator(self) -> "Calibrator | None":
        from trivium.trust.calibration.calibrator import calibrator_from_json

        artifact = self._certificate.calibrator
        return None if artifact is None else calibrator_from_json(artifact)

    def _confidence(self, score: Score, group: str) -> float:
        """Compute the confidence that the certificate's threshold refers to.

        Raises:
            TrustError: If the judgement lacks the signals for it.
        """
        # Imported here, so that a run without certificates does not wait for the import.
        from trivium.trust.confidence.functions import CALIBRATED, calibrated, confidence

        variant, signals = self._certificate.confidence, score.detail.get("signals")
        if variant in {STATED, CALIBRATED + STATED}:
            stated = score.detail.get(STATED)
            if not is_number(stated):
                raise TrustError("the judgement states none")
            if variant == STATED or self._calibrator is None:
                return float(stated)
            return float(calibrated(self._calibrator, [stated], [group])[0][0])
        rows = [dict_(signals)]
        return float(confidence(variant, rows, calibrator=self._calibrator, groups=[group]).values[0])


def is_due(score: Score) -> bool:
    """Whether a judgement applies to its case: it is present or missing."""
    return score.tier == "judge" and (score.status == "ok" or is_missing(score))


def judging_conditions(dimension: str, settings: Settings, provenance: Provenance) -> JudgedBy:
    """Return how a run judges a dimension, without models and prompts, which are in each score."""
    judge, recorded = settings.judge, provenance.judge
    if judge is None or recorded is None:
        return JudgedBy(models=(), prompts=())
    own = [each for each in judge.rubric if isinstance(each, Rubric)]
    digests = recorded.rubrics
    rubrics = {
        rubric.name: digests[rubric.name]
        for rubric in (*built_in_rubrics().values(), *own)
        if rubric.name in digests
        and any(dimension in {each.name, f"{rubric.name}.{each.name}"} for each in rubric.dimensions)
    }
    return JudgedBy(
        models=(), prompts=(), rubrics=rubrics, scale=judge.scale, step=judge.step, samples=judge.samples
    )


def expiries(certificate: JudgeCertificate, conditions: JudgedBy) -> Iterator[str]:
    """Yield the reasons why a certificate does not apply to judgements made under these conditions.

    Args:
        certificate: The certificate.
        conditions: Result of :func:`judging_conditions`.
    """
    for name in ("rubrics", "scale", "step", "samples"):
        before, now = getattr(certificate.judged_by, name), getattr(conditions, name)
        if before != now:
            was = json_text(before)
            yield f"{EXPIRED}judge.{name} is {json_text(now)}, and was {was} when it was certified"


def acceptance_of(
    store: Store, run: RunRecord, settings: Settings
) -> tuple[dict[str, Acceptance], dict[str, Column]]:
    """Count the judgements that the certificates of a run accept.

    Args:
        store: The store that holds the run.
        run: The run.
        settings: Settings of the run.

    Returns:
        Counts and reasons by dimension, and the accepted shares as columns for gates.
    """
    certificates = certificates_in(settings)
    if not certificates:
        return {}, {}
    marked: dict[str, list[tuple[int, bool, str | None]]] = {each.dimension: [] for each in certificates}
    for stored in store.evaluations(run):
        for name, mark in marks(stored.evaluation.scores).items():
            if name in marked:
                marked[name].append((stored.position, mark["answer"] == ACCEPTED, mark["why"]))
    group_of = list(store.groups(run.suite, settings.group))
    every = sorted(chain(*marked.values()), key=itemgetter(0))
    clusters, columns = Clusters(group_of), {}
    for name, of_name in ((GATE, every), *((f"{name}.{GATE}", of) for name, of in marked.items())):
        columns[name] = Column(name, "judge", clusters)
        columns[name].add_values([at for at, *_ in of_name], [float(ok) for _, ok, _ in of_name])
    acceptance = {}
    for each in certificates:
        of = marked[each.dimension]
        accepted_in = Counter(group_of[at] for at, ok, _ in of if ok)
        acceptance[each.dimension] = record_of(
            Acceptance,
            each,
            certificate=each.name,
            accepted=accepted_in.total(),
            to_people=len(of) - accepted_in.total(),
            why=dict(Counter(why for *_, why in of if why is not None).most_common(WHYS_SHOWN)),
            larger_groups=sum(n > (each.group_size or n) for n in accepted_in.values()),
        )
    return acceptance, columns


def expired(acceptance: Mapping[str, Acceptance]) -> Iterator[str]:
    """Yield a warning for each certificate that does not apply to some judgements, with the reason."""
    for name, accepted in acceptance.items():
        if count := accepted.larger_groups:
            groups = counted(count, "group has", "groups have")
            yield f"{name}: {groups} more accepted judgements than {accepted.certificate} holds for"
        for why, count in accepted.why.items():
            if why.startswith(EXPIRED):
                yield (
                    f"{name}: certificate {accepted.certificate} does not apply to {count:,} judgements, and "
                    f"they go to people: {why.removeprefix(EXPIRED)}"
                )


def marks(scores: Mapping[str, Score]) -> dict[str, dict[str, Any]]:
    """Return the marks of an attempt's judgements by dimension."""
    return {name: mark for name, score in scores.items() if isinstance(mark := score.detail.get(MARK), dict)}


def unmarked(score: Score) -> Score:
    """Return a score without the mark of a certificate."""
    if MARK not in score.detail:
        return score
    detail = {key: value for key, value in score.detail.items() if key != MARK}
    return msgspec.structs.replace(score, detail=detail)


def stated_or_certified(detail: Mapping[str, Any]) -> float | None:
    """Return the confidence that a judgement states, else the one that a certificate computed."""
    mark = detail.get(MARK)
    value = detail.get(STATED, mark.get("confidence") if isinstance(mark, dict) else None)
    return float(value) if is_number(value) else None


def _listed(values: Sequence[str | None]) -> str:
    return ", ".join("none named" if value is None else value for value in values) or "none"
