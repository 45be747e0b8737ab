"""Applies certificates: decides which judgements are accepted without a person (spec: metrics, H.4)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from trivium.errors import Problem, SuiteError, TrustError
from trivium.metrics.metric import Score, is_missing
from trivium.metrics.registry import ACCEPTED as GATE
from trivium.runs.columns import Clusters, Column
from trivium.runs.reducers import REDUCERS
from trivium.runs.summary import Acceptance
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.certificate import JudgeCertificate, loaded
from trivium.suites.rubrics.built_in import BUILT_IN
from trivium.suites.rubrics.rubric import Rubric
from trivium.suites.settings import Settings

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

ROUNDING = 1e-9
"""Differences up to this are rounding: a confidence computed for one judgement or many may differ by it."""


def certificates_in(settings: Settings) -> tuple[JudgeCertificate, ...]:
    """Return the certificates that a suite applies."""
    return () if settings.judge is None else loaded(settings.judge.certificate)


def check_gates(settings: Settings, *, source: str) -> None:
    """Refuse gates on the share of accepted judgements if there is no certificate.

    Raises:
        SuiteError: If there are such gates; it lists all of them.
    """
    if certificates_in(settings):
        return
    problems = [
        Problem(
            f"gates.{name}", "no certificate says what is accepted: judge.certificate or --certificate FILE"
        )
        for name in settings.gates
        if name == GATE or name.endswith(f".{GATE}")
    ]
    if problems:
        raise SuiteError(source, problems)


class Certificates:
    """Marks the judgements of a run as accepted, or as going to people.

    Args:
        settings: Settings of the run.
        provenance: Provenance of the run, for the digests of its rubrics.
        certificates: Certificates that replace those of the settings.
    """

    def __init__(
        self,
        settings: Settings,
        provenance: Mapping[str, Any],
        certificates: Sequence[JudgeCertificate] | None = None,
    ) -> None:
        self._by_dimension = {
            each.dimension: _Applied(each, judging_conditions(each.dimension, settings, provenance))
            for each in (certificates_in(settings) if certificates is None else certificates)
        }

    def __bool__(self) -> bool:
        return bool(self._by_dimension)

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

    def __init__(self, certificate: JudgeCertificate, conditions: Mapping[str, Any]) -> None:
        self._certificate = certificate
        self._expired = next(expiries(certificate, conditions), None)

    def mark(self, score: Score, group: str) -> dict[str, Any]:
        """Return ``answer`` (accepted or to people), ``confidence`` and ``why`` it goes to people."""
        if score.status != "ok" or score.value is None:
            abstained = score.status == "abstained"
            why = "the judge abstained" if abstained else f"there is no judgement ({score.status})"
            return {"answer": TO_PEOPLE, "confidence": None, "why": why}
        try:
            confidence: float | None = self._confidence(score, group)
            failure: str | None = None
        except TrustError as error:
            confidence, failure = None, f"its confidence cannot be computed: {error}"
        reason = (
            self._expired or self._other_judge(score.detail) or failure or self._under_threshold(confidence)
        )
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
        threshold = self._certificate.threshold
        if threshold is None:
            return "nothing was certified"
        if confidence is None or confidence < threshold - ROUNDING:
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
            if not isinstance(stated, int | float) or isinstance(stated, bool):
                raise TrustError("the judgement states none")
            if variant == STATED or self._calibrator is None:
                return float(stated)
            return float(calibrated(self._calibrator, [stated], [group])[0][0])
        rows = [signals if isinstance(signals, dict) else {}]
        return float(confidence(variant, rows, calibrator=self._calibrator, groups=[group]).values[0])


def is_due(score: Score) -> bool:
    """Whether a judgement applies to its case: it is present or missing."""
    return score.tier == "judge" and (score.status == "ok" or is_missing(score))


def judging_conditions(dimension: str, settings: Settings, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions under which a run judges a dimension; model and prompt are in each score.

    Returns:
        ``rubrics``, ``scale``, ``step`` and ``samples`` of :class:`~trivium.suites.certificate.JudgedBy`.
    """
    judge, recorded = settings.judge, provenance.get("judge")
    if judge is None or not isinstance(recorded, Mapping):
        return {"rubrics": {}, "scale": None, "step": None, "samples": None}
    own = [each for each in judge.rubric if isinstance(each, Rubric)]
    digests = recorded.get("rubrics") or {}
    rubrics = {
        rubric.name: digests[rubric.name]
        for rubric in (*BUILT_IN.values(), *own)
        if rubric.name in digests
        and any(dimension in {each.name, f"{rubric.name}.{each.name}"} for each in rubric.dimensions)
    }
    return {"rubrics": rubrics, "scale": judge.scale, "step": judge.step, "samples": judge.samples}


def expiries(certificate: JudgeCertificate, conditions: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons why a certificate does not apply to judgements made under these conditions.

    Args:
        certificate: The certificate.
        conditions: Result of :func:`judging_conditions`.
    """
    for name, now in conditions.items():
        before = getattr(certificate.judged_by, name)
        if before != now:
            yield f"{EXPIRED}judge.{name} is {_short(now)}, and was {_short(before)} when it was certified"


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
    counts = {each.dimension: Counter[str]() for each in certificates}
    reasons = {each.dimension: Counter[str]() for each in certificates}
    clusters, places, groups = Clusters(), dict[int, int](), dict[str, int]()
    cluster_of = list(store.groups(run.suite, settings.group))
    shares: dict[str, tuple[list[int], list[float]]] = {name: ([], []) for name in (GATE, *counts)}
    for stored in store.evaluations(run):
        for name, mark in marks(stored.evaluation.scores).items():
            if name not in counts:
                continue
            if stored.position not in places:
                places[stored.position] = len(places)
                group = cluster_of[stored.position]
                clusters.extend([groups.setdefault(group, len(groups))])
            counts[name][mark["answer"]] += 1
            if mark["why"] is not None:
                reasons[name][mark["why"]] += 1
            for share in (GATE, name):
                shares[share][0].append(places[stored.position])
                shares[share][1].append(float(mark["answer"] == ACCEPTED))
    columns = {}
    for name, (cases, values) in shares.items():
        column = Column(name if name == GATE else f"{name}.{GATE}", "judge", clusters)
        column.add_values(cases, values, REDUCERS["mean"])
        columns[column.name] = column
    acceptance = {
        each.dimension: Acceptance(
            certificate=each.name,
            confidence=each.confidence,
            threshold=each.threshold,
            epsilon=each.epsilon,
            delta=each.delta,
            accepted=counts[each.dimension][ACCEPTED],
            to_people=counts[each.dimension][TO_PEOPLE],
            why=dict(reasons[each.dimension].most_common(WHYS_SHOWN)),
        )
        for each in certificates
    }
    return acceptance, columns


def expired(acceptance: Mapping[str, Acceptance]) -> Iterator[str]:
    """Yield a warning for each certificate that does not apply to some judgements, with the reason."""
    for name, accepted in acceptance.items():
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
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _listed(values: Sequence[str | None]) -> str:
    return ", ".join("none named" if value is None else value for value in values) or "none"


def _short(value: Any) -> str:
    return msgspec.json.encode(value).decode()
