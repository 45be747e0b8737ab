"""Tables of the trust commands for the terminal."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from trivium.reports.escape import one_line
from trivium.reports.wording import condition_sentence, counted, judge_name, judge_word
from trivium.runs.artifacts.curve import CurveArtifact, Difference
from trivium.runs.artifacts.judge import AgreementAnswer, AgreementMeasure, CertificateAnswer
from trivium.runs.artifacts.variant import Ends
from trivium.runs.items.table import Origin
from trivium.trust.calibration.calibrator import Calibrator
from trivium.trust.calibration.methods import Temperature

NAMES = {
    "exact": "same label",
    "within_one": "at most one step apart",
    "kappa": "Cohen's κ",
    "kappa_quadratic": "Cohen's κ, quadratic",
    "alpha_ordinal": "Krippendorff's α, ordinal",
    "spearman": "Spearman's ρ",
    "kendall": "Kendall's τ-b",
}
TOO_FEW_GROUPS = 10


class AgreementTable:
    """All measures of agreement with intervals, and people's mean estimated from the judge's scores.

    Args:
        answer: Result of ``trivium.runs.artifacts.judge.agreement_answer``.
    """

    def __init__(self, answer: AgreementAnswer) -> None:
        self._answer = answer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        answer = self._answer
        abstained = f", {answer.abstained:,} more without a judgement" if answer.abstained else ""
        groups = counted(answer.groups, "group")
        if answer.exact.value is not None:
            yield Text(agreement_sentence(answer), style="bold")
        yield Text(f"{counted(answer.n, 'item')} that both labelled, in {groups}{abstained}\n")
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("agreement")
        table.add_column("value", justify="right")
        table.add_column("interval" if answer.groups < TOO_FEW_GROUPS else "95 % interval", no_wrap=True)
        for key, words in NAMES.items():
            if key == "within_one" and len(answer.labels) <= 2:
                continue  # always 1 for two labels
            figure: AgreementMeasure = getattr(answer, key)
            table.add_row(words, _number(figure.value), _ends(figure.ci95, figure.reason))
        yield table
        yield from self._means()
        for warning in answer.warnings:
            yield Text(f"! {one_line(warning, at_most=500)}", style="yellow")

    def _means(self) -> Iterator[Text]:
        answer, corrected = self._answer, self._answer.corrected
        one, other = (one_line(side, at_most=60) for side in answer.sides)
        if answer.judge_mean is None:
            return
        yield Text("")
        yield Text(f"Means of these items: {one} {answer.judge_mean:.3f}, {other} {answer.people_mean:.3f}.")
        if corrected is None:
            return
        yield Text(
            f"Over all {corrected.labelled + corrected.unlabelled:,} judged: {one} "
            f"{_number(corrected.judge)}; estimate for {other} {_number(corrected.value)} "
            f"{_ends(corrected.ci95, corrected.reason)} (PPI++), if the labelled items are a random "
            "sample."
        )
        rate = answer.corrected_rate
        if rate is not UNSET:
            yield Text(
                f"By sensitivity and specificity: {_number(rate.value)} "
                f"{_ends(rate.ci95, rate.reason)} (Rogan–Gladen)."
            )


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
        apart = f" and is at most one step away in {_percent(near)}"
    if kappa.value is None or kappa.ci95 is None:
        beyond = "whether that is more than by chance is unknown"
    elif kappa.ci95[0] > 0:
        beyond = f"more than by chance (Cohen's κ {kappa.value:.2f})"
    else:
        beyond = f"not shown to be more than by chance (Cohen's κ {kappa.value:.2f})"
    return f"{who} in {_percent(exact)} of {counted(answer.n, 'item')}{apart}: {beyond}."


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


def _percent(figure: AgreementMeasure) -> str:
    ends = figure.ci95
    interval = f" [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]" if ends else ""
    return f"{100 * (figure.value or 0):.0f} %{interval}"


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


class CalibratorTable:
    """A calibrator: its method, features and quality."""

    def __init__(self, calibrator: Calibrator) -> None:
        self._calibrator = calibrator

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        calibrator, metrics = self._calibrator, self._calibrator.metrics
        training, model = calibrator.training_metadata, calibrator.model
        on = ", ".join(calibrator.features)
        method = training.get("method", calibrator.method)  # as it was asked for
        temperature = f", T = {model.temperature:.3f}" if isinstance(model, Temperature) else ""
        yield Text(
            one_line(f"{method} on {on}{temperature}; target {calibrator.target}", at_most=300),
            style="bold",
        )
        fitted = counted(training["n_samples"], "prediction")
        yield Text(f"fitted on {fitted} of {counted(training['n_groups'], 'group')}\n")
        table = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
        table.add_column("")
        shown = [name for name in MEASURES if name in metrics["in_sample"]]
        for name in shown:
            table.add_column(MEASURES[name], justify="right")
        for key, words in WHEN.items():
            figures = metrics.get(key)
            if figures is not None:
                table.add_row(words, *(_number(figures[name]) for name in shown))
        table.caption = "Quote the numbers of unseen groups: those of its own data are too good."
        yield table
        if metrics["cross_fitted"] is None:
            yield Text(f"! no numbers of unseen groups: {metrics['cross_fitted_reason']}", style="yellow")
        for warning in calibrator.warnings:
            yield Text(f"! {one_line(warning, at_most=500)}", style="yellow")


class CertificateText:
    """The confidence from which verdicts are accepted, or why none can be certified.

    Args:
        answer: Result of ``trivium.runs.artifacts.judge.certificate``.
    """

    def __init__(self, answer: CertificateAnswer) -> None:
        self._answer = answer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        answer = self._answer
        guarantee = f"at most {100 * answer.epsilon:g} % wrong, with probability {1 - answer.delta:g}"
        name = one_line(answer.confidence, at_most=60)
        if answer.threshold is None:
            yield Text(f"Nothing can be certified ({guarantee}).", style="bold")
            yield Text(f"{answer.reason}. Every verdict goes to people.")
        else:
            yield Text(f"Accept {name} ≥ {answer.threshold:g} ({guarantee}).", style="bold")
            yield Text(
                f"That is {answer.n_accepted:,} of the {answer.n_items:,} items "
                f"({100 * answer.coverage:.1f} %), of which {_wrong(answer.errors)}; "
                f"the bound at this threshold is {100 * (answer.error_bound or 0):.1f} %. "
                f"The others go to people.{condition_sentence(answer)}"
            )
        yield Text(
            f"{counted(answer.n, 'labelled verdict')} in {counted(answer.groups, 'group')}, "
            f"{counted(answer.tested, 'threshold')} tested, {answer.method}."
            + (f" Judge: {judge_name(named)}." if (named := answer.inputs[0].judge) else ""),
            style="dim",
        )
        yield Text(one_line(confidence_sentence([name], answer), at_most=500), style="dim")
        for warning in answer.warnings:
            yield Text(f"! {one_line(warning, at_most=500)}", style="yellow")


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


class CurveTable:
    """Metrics of each confidence with their intervals; for two inputs their differences.

    Args:
        artifact: Result of ``trivium.runs.artifacts.curve.curve_artifact``.
    """

    def __init__(self, artifact: CurveArtifact) -> None:
        self._artifact = artifact
        self._paired = artifact.comparison.enabled
        groups = artifact.population.participants_included
        self._interval = "interval" if groups < TOO_FEW_GROUPS else "95 % interval"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._head()
        if self._paired:
            yield self._differences()
            yield from self._words()
        else:
            if lines := conclusions(self._artifact):
                yield Text("\n".join(lines) + "\n", style="bold")
            yield self._areas()
            yield from self._risks()
        for warning in self._artifact.warnings:
            yield Text(f"! {one_line(warning, at_most=500)}", style="yellow")
        names = list(self._artifact.confidence_variants)
        yield Text(one_line(confidence_sentence(names, self._artifact), at_most=500), style="dim")
        yield Text(_resampled(self._artifact), style="dim")

    def _head(self) -> Iterator[RenderableType]:
        population, loss = self._artifact.population, self._artifact.loss
        predicted, total = population.items_predicted, population.items_total
        counts = predicted if isinstance(predicted, list) else [predicted]
        shares = " and ".join(f"{count:,} ({_percent_of(count, total)})" for count in counts)
        yield Text(
            f"{counted(total, 'item')} in {counted(population.participants_included, 'group')}, {shares} "
            f"predicted; "
            f"loss {loss.name} = {loss.definition}"
        )
        for place, source in enumerate(self._artifact.inputs):
            named = source_line(source)
            if self._paired:
                named = f"{('first', 'second')[place]}: {named}"
            yield Text(one_line(named, at_most=200), style="dim")
        yield Text("")

    def _areas(self) -> Table:
        table = _table("confidence", "AUGRC", self._interval, "AURC", self._interval, "best")
        for name in self._artifact.confidence_variants:
            (entry,) = self._artifact.sides(name)
            intervals = entry.bootstrap.ci95
            table.add_row(
                one_line(name, at_most=NAME_COLUMNS),
                _number(entry.augrc_full),
                _plain_ends(intervals.augrc_full),
                _number(entry.aurc_full),
                _plain_ends(intervals.aurc_full),
                _number(entry.aurc_optimal),
            )
        table.caption = (
            "Areas under the risk: lower is better. best: AURC of a perfect ranking of these predictions. "
            "Abstaining more lowers all areas."
        )
        return table

    def _risks(self) -> Iterator[RenderableType]:
        entries = {name: self._artifact.sides(name)[0] for name in self._artifact.confidence_variants}
        shares = list(next(iter(entries.values())).mae_at_coverage)[:MOST_SHARES] if entries else []
        if not shares:
            return
        table = _table("risk (at coverage)", *(f"{100 * float(share):g} %" for share in shares))
        for name, entry in entries.items():
            readings = [entry.mae_at_coverage[share] for share in shares]
            table.add_row(
                one_line(name, at_most=NAME_COLUMNS),
                *(f"{reading.value:.2f}" if reading else "–" for reading in readings),
            )
        table.caption = (
            "Mean loss if this share of all items is answered, most confident first; –: not reached."
        )
        yield Text("")
        yield table

    def _differences(self) -> Table:
        table = _table("confidence", "", "first", "second", "difference", self._interval)
        variants = self._artifact.confidence_variants
        for name, deltas in (self._artifact.comparison.deltas or {}).items():
            called = one_line(name, at_most=NAME_COLUMNS)
            for figure, label in FIGURES.items():
                if figure == "cmax" and name != next(iter(variants)):
                    continue  # the same for every confidence
                delta: Difference = getattr(deltas, figure)
                table.add_row(
                    called,
                    label,
                    _number(delta.left),
                    _number(delta.right),
                    _number(delta.delta, sign=True),
                    _plain_ends(delta.ci95),
                )
                called = ""
        table.caption = (
            "second - first on the same groups; lower risk is better. common: up to the coverage that both "
            "reach, the fair comparison where one abstains more."
        )
        return table

    def _words(self) -> Iterator[RenderableType]:
        verdicts: dict[str, list[str]] = {}
        for name, deltas in (self._artifact.comparison.deltas or {}).items():
            if deltas.in_words:
                verdicts.setdefault(deltas.in_words, []).append(name)
        for words, names in verdicts.items():
            yield Text(f"{', '.join(names)}: {words}.", style="bold")


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


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, caption_justify="left", header_style="bold")
    table.add_column(first, no_wrap=True, max_width=NAME_COLUMNS)
    for name in others:
        text = name in {"", "interval", "95 % interval"}
        table.add_column(name, justify="left" if text else "right", no_wrap=True)
    return table


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
