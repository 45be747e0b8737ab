"""The answers of the trust commands, and what Python has of curves, agreement and certificates, as blocks."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from trivium.reports.document.blocks import (
    Block,
    Drawing,
    Kinds,
    Paragraph,
    Picture,
    Remarks,
    Table,
    Title,
    table_of,
)
from trivium.reports.trust.charts import DrawnLine, risk_chart
from trivium.reports.wording import condition_sentence, judge_name, judge_word, known_share, number, share
from trivium.runs.artifacts.curve import CurveArtifact, Difference
from trivium.runs.artifacts.judge import AgreementAnswer, AgreementMeasure, CertificateAnswer
from trivium.runs.artifacts.variant import Ends
from trivium.runs.items.table import Origin
from trivium.safe_text import one_line
from trivium.trust.calibration.calibrator import Calibrator
from trivium.trust.calibration.methods import Temperature
from trivium.trust.certification import Certificate
from trivium.trust.clustered import TOO_FEW_GROUPS
from trivium.trust.rater_agreement import Agreement
from trivium.trust.selective.curve import Curve, augrc, aurc, risk_at
from trivium.values import counted

NAMES = {
    "exact": "same label",
    "within_one": "at most one step apart",
    "kappa": "Cohen's κ",
    "kappa_quadratic": "Cohen's κ, quadratic",
    "alpha_ordinal": "Krippendorff's α, ordinal",
    "spearman": "Spearman's ρ",
    "kendall": "Kendall's τ-b",
}


def agreement_blocks(answer: AgreementAnswer) -> Iterator[Block]:
    """Yield all measures of agreement with intervals, and people's mean estimated from the judge's scores.

    Args:
        answer: Result of ``trivium.runs.artifacts.judge.agreement_answer``.
    """
    if answer.exact.value is not None:
        yield Paragraph((agreement_sentence(answer),), "strong")
    abstained = f", {answer.abstained:,} more without a judgement" if answer.abstained else ""
    groups = counted(answer.groups, "group")
    yield Paragraph((f"{counted(answer.n, 'item')} that both labelled, in {groups}{abstained}",))
    figures: dict[str, AgreementMeasure] = {words: getattr(answer, key) for key, words in NAMES.items()}
    if len(answer.labels) <= 2:
        del figures[NAMES["within_one"]]  # always 1 for two labels
    rows = [(words, _number(each.value), _ends(each.ci95, each.reason)) for words, each in figures.items()]
    heads = ("agreement", "value", _interval(answer.groups))
    yield table_of(heads, ("name", "number", "interval"), rows)
    yield Paragraph(tuple(_means(answer)))
    yield Remarks(tuple(answer.warnings))


def describe_agreement(agreement: Agreement) -> Iterator[Block]:
    """All measures with intervals, or the reason why there is none."""
    rows = []
    for name, figure in agreement.figures.items():
        ends = None if figure.interval is None else (figure.interval.low, figure.interval.high)
        rows.append((NAMES.get(name, name), _number(figure.value), _ends(ends, figure.reason)))
    items = f"{counted(agreement.n, 'item')} in {counted(agreement.groups, 'group')}"
    yield Title(text="agreement", beside=items)
    yield table_of(("measure", "value", "interval"), ("name", "number", "interval"), rows)


def _means(answer: AgreementAnswer) -> Iterator[str]:
    corrected, (one, other) = answer.corrected, (one_line(side, at_most=60) for side in answer.sides)
    if answer.judge_mean is None:
        return
    yield f"Means of these items: {one} {answer.judge_mean:.3f}, {other} {answer.people_mean:.3f}."
    if corrected is None:
        return
    yield (
        f"Over all {corrected.labelled + corrected.unlabelled:,} judged: {one} "
        f"{_number(corrected.judge)}; estimate for {other} {_number(corrected.value)} "
        f"{_ends(corrected.ci95, corrected.reason)} (PPI++), if the labelled items are a random sample."
    )
    rate = answer.corrected_rate
    if rate is not UNSET:
        ends = _ends(rate.ci95, rate.reason)
        yield f"By sensitivity and specificity: {_number(rate.value)} {ends} (Rogan–Gladen)."


def _interval(groups: int) -> str:
    return "interval" if groups < TOO_FEW_GROUPS else "95 % interval"


def agreement_sentence(answer: AgreementAnswer) -> str:
    """How often both agree, and whether that exceeds chance, in one sentence.

    Args:
        answer: Result of ``agreement_answer`` with at least one item.
    """
    one, other = (one_line(side, at_most=60) for side in answer.sides)
    who = f"{_judge(answer) if one == 'judge' else one} agrees with {other}"
    exact, near, kappa = answer.exact, answer.within_one, answer.kappa
    apart = ""
    if len(answer.labels) > 2:
        apart = f" and is at most one step away in {known_share(near.value, near.ci95)}"
    if kappa.value is None or kappa.ci95 is None:
        beyond = "whether that is more than by chance is unknown"
    elif kappa.ci95[0] > 0:
        beyond = f"more than by chance (Cohen's κ {kappa.value:.2f})"
    else:
        beyond = f"not shown to be more than by chance (Cohen's κ {kappa.value:.2f})"
    same = known_share(exact.value, exact.ci95)
    return f"{who} in {same} of {counted(answer.n, 'item')}{apart}: {beyond}."


def may_decide_sentence(certificate: CertificateAnswer | str) -> str:
    """From which confidence on the judge may decide without a person, in one sentence.

    Args:
        certificate: Result of ``trivium.runs.artifacts.judge.certificate``, or why there is none.
    """
    if isinstance(certificate, str):
        return f"When it may decide without a person is unknown: {certificate.rstrip('.')}."
    guarantee = f"at most {100 * certificate.epsilon:g} % wrong, with probability {1 - certificate.delta:g}"
    if certificate.threshold is None:
        return f"No confidence is certified from which it may decide without a person ({guarantee})."
    name = one_line(certificate.confidence, at_most=60)
    return (
        f"It may decide without a person where {name} ≥ {certificate.threshold:g}, in "
        f"{100 * certificate.coverage:.0f} % of the items ({guarantee}), and not otherwise."
        f"{condition_sentence(certificate)}"
    )


def _judge(answer: AgreementAnswer) -> str:
    """The judge, with its name where the items say it."""
    named = answer.inputs[0].judge
    return f"The {judge_word(named)} {one_line(named, at_most=120)}" if named else "The judge"


def source_line(source: Origin) -> str:
    """Where items come from and who judged them."""
    judge = f"judged by {judge_name(source.judge)}" if source.judge else None
    return " · ".join(part for part in (source.path, source.mode, judge) if part)


def _ends(ends: Ends | None, reason: str | None) -> str:
    return f"[{ends[0]:.3f}, {ends[1]:.3f}]" if ends else f"none: {reason}"


MEASURES = {
    "ece": "ECE",
    "nll": "NLL",
    "brier_score": "Brier",
    "auc_roc": "AUROC",
    "mae": "MAE",
    "mse": "MSE",
}
WHEN = {"uncalibrated": "before", "cross_fitted": "after, unseen groups", "in_sample": "after, own data"}


def calibrator_blocks(calibrator: Calibrator) -> Iterator[Block]:
    """Yield a calibrator's method, features and quality, as far as it states them."""
    metrics, training, model = calibrator.metrics, calibrator.training_metadata, calibrator.model
    method = training.get("method", calibrator.method)  # as it was asked for
    on = ", ".join(calibrator.features) or calibrator.confidence or "one confidence"
    temperature = f", T = {model.temperature:.3f}" if isinstance(model, Temperature) else ""
    target = f"; target {calibrator.target}" if calibrator.target else ""
    yield Paragraph((f"{method} on {on}{temperature}{target}",), "strong")
    if "n_samples" in training:
        fitted = counted(training["n_samples"], "prediction")
        yield Paragraph((f"fitted on {fitted} of {counted(training['n_groups'], 'group')}",))
    qualities = {words: known for key, words in WHEN.items() if isinstance(known := metrics.get(key), dict)}
    shown = [name for name in MEASURES if any(name in known for known in qualities.values())]
    rows = [(words, *(_number(known.get(name)) for name in shown)) for words, known in qualities.items()]
    note = "Quote the numbers of unseen groups: those of its own data are too good."
    if rows:
        yield table_of(("", *(MEASURES[name] for name in shown)), ("text",), rows, notes=(note,))
    reason = metrics.get("cross_fitted_reason")
    unseen = [f"no numbers of unseen groups: {reason}"] if reason else []
    yield Remarks((*unseen, *calibrator.warnings))


def certificate_blocks(certificate: Certificate) -> Iterator[Block]:
    """Yield the confidence from which verdicts are accepted, or why none can be certified.

    Args:
        certificate: One of Python, or of ``trivium.runs.artifacts.judge.certificate``, which names its items.
    """
    answer = certificate if isinstance(certificate, CertificateAnswer) else None
    guarantee = f"at most {100 * certificate.epsilon:g} % wrong, with probability {1 - certificate.delta:g}"
    name = "confidence" if answer is None else one_line(answer.confidence, at_most=60)
    if certificate.threshold is None:
        yield Paragraph((f"Nothing can be certified ({guarantee}).",), "strong")
        yield Paragraph((f"{certificate.reason}. Every verdict goes to people.",))
    else:
        yield Paragraph((f"Accept {name} ≥ {certificate.threshold:g} ({guarantee}).",), "strong")
        of = f"{certificate.n:,} verdicts" if answer is None else f"{answer.n_items:,} items"
        accepted = (
            f"That is {certificate.n_accepted:,} of the {of} "
            f"({100 * certificate.coverage:.1f} %), of which {_wrong(certificate.errors)}; "
            f"the bound at this threshold is {100 * (certificate.error_bound or 0):.1f} %. "
            f"The others go to people.{condition_sentence(certificate)}"
        )
        yield Paragraph((accepted,))
    judge = f" Judge: {judge_name(named)}." if answer and (named := answer.inputs[0].judge) else ""
    tested = (
        f"{counted(certificate.n, 'labelled verdict')} in {counted(certificate.groups, 'group')}, "
        f"{counted(certificate.tested, 'threshold')} tested, {certificate.method}.{judge}"
    )
    if answer is None:
        yield Paragraph((tested,), "quiet")
    else:
        yield Remarks(tuple(answer.warnings))
        yield Paragraph((tested, confidence_sentence([name], answer)), "quiet")


def confidence_sentence(names: Sequence[str], answer: CertificateAnswer | CurveArtifact) -> str:
    """Which confidence ranks the verdicts, why, and what choosing it cost.

    Args:
        names: The confidences used.
        answer: Result of ``curve`` or ``certify``.
    """
    choice = answer.confidence_choice
    if choice.why != "best":
        if choice.why == "stated":
            return "Confidence: the one stated with the items."
        why = "as named" if choice.why == "named" else "the default of this source"
        return f"Confidence: {', '.join(names)}, {why}."
    aurocs = ", ".join(f"{name} {value:.2f}" for name, value in choice.auroc.items())
    best = f"Confidence: {names[0]}, the signal with the best AUROC on these labels ({aurocs})"
    if choice.among == 1:
        return f"{best}."
    if isinstance(answer, CertificateAnswer):
        return f"{best}. Delta is divided by {choice.among} for choosing; --confidence names one beforehand."
    return f"{best}. Chosen on these labels, its figures are too good; --confidence names one beforehand."


def _wrong(errors: int) -> str:
    return f"{errors:,} is wrong" if errors == 1 else f"{errors or 'none':} {'are' if errors else 'is'} wrong"


NAME_COLUMNS = 27
MOST_SHARES = 9

FIGURES = {
    "cmax": "coverage",
    "aurc_full": "AURC",
    "augrc_full": "AUGRC",
    "aurc_common": "AURC common",
    "augrc_common": "AUGRC common",
}


def curve_blocks(artifact: CurveArtifact) -> Iterator[Block]:
    """Yield what the confidences are worth, and their metrics with intervals; of two inputs the differences.

    Args:
        artifact: Result of ``trivium.runs.artifacts.curve.curve_artifact``.
    """
    paired = artifact.comparison.enabled
    interval = _interval(artifact.population.participants_included)
    yield Paragraph(tuple(_words(artifact) if paired else conclusions(artifact)), "strong")
    yield Paragraph((_items(artifact),))
    if paired:
        yield _differences(artifact, interval)
    else:
        yield _areas(artifact, interval)
        yield from _risks(artifact)
    yield Remarks(tuple(artifact.warnings))
    names = list(artifact.confidence_variants)
    places = ("first: ", "second: ") if paired else ("",)
    sources = (f"{place}{source_line(each)}" for place, each in zip(places, artifact.inputs, strict=True))
    yield Paragraph((*sources, confidence_sentence(names, artifact), _resampled(artifact)), "quiet")


def _items(artifact: CurveArtifact) -> str:
    population, loss = artifact.population, artifact.loss
    predicted, total = population.items_predicted, population.items_total
    counts = predicted if isinstance(predicted, list) else [predicted]
    shares = " and ".join(f"{count:,} ({_percent_of(count, total)})" for count in counts)
    groups = counted(population.participants_included, "group")
    items = f"{counted(total, 'item')} in {groups}, {shares} predicted"
    return f"{items}; loss {loss.name} = {loss.definition}"


def _areas(artifact: CurveArtifact, interval: str) -> Table:
    rows = []
    for name in artifact.confidence_variants:
        (entry,) = artifact.sides(name)
        augrc, aurc = entry.bootstrap.ci95.augrc_full, entry.bootstrap.ci95.aurc_full
        areas = (_number(entry.augrc_full), _plain_ends(augrc), _number(entry.aurc_full), _plain_ends(aurc))
        rows.append((_name(name), *areas, _number(entry.aurc_optimal)))
    note = (
        "Areas under the risk: lower is better. best: AURC of a perfect ranking of these predictions. "
        "Abstaining more lowers all areas."
    )
    heads = ("confidence", "AUGRC", interval, "AURC", interval, "best")
    return table_of(heads, ("name", "number", "interval", "number", "interval"), rows, notes=(note,))


def _risks(artifact: CurveArtifact) -> Iterator[Table]:
    entries = {name: artifact.sides(name)[0] for name in artifact.confidence_variants}
    shares = list(next(iter(entries.values())).mae_at_coverage)[:MOST_SHARES] if entries else []
    if not shares:
        return
    rows = []
    for name, entry in entries.items():
        readings = [entry.mae_at_coverage[share] for share in shares]
        rows.append((_name(name), *(f"{each.value:.2f}" if each else "–" for each in readings)))
    note = "Mean loss if this share of all items is answered, most confident first; –: not reached."
    heads = ("risk (at coverage)", *(f"{100 * float(share):g} %" for share in shares))
    yield table_of(heads, ("name",), rows, notes=(note,))


def _differences(artifact: CurveArtifact, interval: str) -> Table:
    rows = []
    for name, deltas in (artifact.comparison.deltas or {}).items():
        called = _name(name)
        for figure, label in FIGURES.items():
            if figure == "cmax" and name != next(iter(artifact.confidence_variants)):
                continue  # the same for every confidence
            delta: Difference = getattr(deltas, figure)
            sides = (_number(delta.left), _number(delta.right), _number(delta.delta, sign=True))
            rows.append((called, label, *sides, _plain_ends(delta.ci95)))
            called = ""
    note = (
        "second - first on the same groups; lower risk is better. common: up to the coverage that both "
        "reach, the fair comparison where one abstains more."
    )
    heads = ("confidence", "", "first", "second", "difference", interval)
    kinds: tuple[Kinds, ...] = ("name", "text", "number", "number", "number", "interval")
    return table_of(heads, kinds, rows, notes=(note,))


def _words(artifact: CurveArtifact) -> Iterator[str]:
    verdicts: dict[str, list[str]] = {}
    for name, deltas in (artifact.comparison.deltas or {}).items():
        if deltas.in_words:
            verdicts.setdefault(deltas.in_words, []).append(name)
    return (f"{', '.join(names)}: {words}." for words, names in verdicts.items())


def _name(name: str) -> str:
    return one_line(name, at_most=NAME_COLUMNS)


def conclusions(artifact: CurveArtifact) -> list[str]:
    """One sentence per confidence of one input: whether it ranks the predictions better than chance.

    It does if the interval of AURC (divided by its coverage) ends below the mean loss, which is the expected
    value for a random order. That interval is wider than one of the difference would be.

    Args:
        artifact: Result of ``curve_artifact`` for one input.
    """
    lines = []
    for name in artifact.confidence_variants:
        (entry,) = artifact.sides(name)
        ends, risks = entry.bootstrap.ci95.aurc_per_cmax, entry.curve.selective_risk
        readings = {float(share): each for share, each in entry.mae_at_coverage.items() if each}
        if not risks or not readings:
            continue
        half = readings[min(readings, key=lambda share: abs(share - 0.5))]
        sentence = (
            f"{one_line(name, at_most=NAME_COLUMNS)}: mean loss {half.value:.3f} among the most confident "
            f"{100 * half.achieved:.0f} %, {risks[-1]:.3f} over all predictions"
        )
        if ends is None:
            lines.append(f"{sentence}; without an interval, it is unknown whether that exceeds chance.")
        elif ends[1] < risks[-1]:
            lines.append(f"{sentence}: it ranks them better than chance.")
        else:
            lines.append(f"{sentence}: not shown to rank them better than chance.")
    return lines


def _number(value: float | None, *, sign: bool = False) -> str:
    return "–" if value is None else f"{value:+.3f}" if sign else f"{value:.3f}"


def _plain_ends(ends: Sequence[float] | None) -> str:
    return "none" if ends is None else f"[{ends[0]:.3f}, {ends[1]:.3f}]"


def _percent_of(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def _resampled(artifact: CurveArtifact) -> str:
    """How the intervals were computed."""
    options = artifact.sides(next(iter(artifact.confidence_variants)))[0].bootstrap
    return (
        f"Intervals: {options.n_resamples:,} resamples of {counted(options.groups, 'group')}, "
        f"{options.method}, {options.rng}, seed {options.seed}."
    )


MOST_POINTS = 600
"""Points of a drawn curve."""
COVERAGES = (0.25, 0.5, 0.75, 1.0)
"""Coverages at which the risk of a curve of Python is listed."""


def describe_curve(curve: Curve) -> Iterator[Block]:
    """Its areas, the curve drawn, and the risk at a few coverages."""
    if not curve.coverage.size:
        yield Title(text="risk and coverage")
        yield Paragraph(("no item is predicted",))
        return
    rows = [
        (share(requested), share(point.achieved), number(point.value))
        for requested in COVERAGES
        if (point := risk_at(curve, requested)) is not None
    ]
    areas = f"AURC {number(aurc(curve))}, AUGRC {number(augrc(curve))} over coverages to {share(curve.cmax)}"
    predicted = f"{curve.n_items:,} items, {share(curve.cmax)} predicted"
    yield Title(text="risk and coverage", beside=predicted)
    yield Paragraph((areas,))
    step = -(-curve.coverage.size // MOST_POINTS)
    chosen = [*range(0, curve.coverage.size - 1, step), curve.coverage.size - 1]
    coverage, risk = (of[chosen].tolist() for of in (curve.coverage, curve.selective_risk))
    drawn = risk_chart([DrawnLine("measured", coverage, risk, end=curve.cmax)], loss="the loss")
    yield Drawing((Picture(drawn.svg),))
    yield table_of(("coverage", "reached", "risk"), (), rows)
