"""The certificate of a judge that a suite applies, and its file format.

Definition: docs/definitions/calibration.md#accepted.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trivium.errors import Problem, SuiteError, placed
from trivium.records.documents import read_document
from trivium.values import JsonObject, resolved

MADE_BY = "trivium trust certify RUN --dimension D --labels FILE --output CERTIFICATE.json"


class JudgedBy(msgspec.Struct, frozen=True, kw_only=True):
    """How the certified judgements were made; the certificate holds for no others.

    Attributes:
        models: Judge models; None where unknown.
        prompts: Names or digests of the prompts; None where unknown.
        rubrics: Digest of each rubric with the dimension, by name; empty for imported judgements.
        scale: How a Likert value became a score; None for imported judgements.
        step: Distance between neighbouring Likert values; None for imported judgements.
        samples: Samples for each judgement; None for imported judgements.
    """

    models: tuple[str | None, ...]
    prompts: tuple[str | None, ...]
    rubrics: dict[str, str] = {}
    scale: str | None = None
    step: float | None = None
    samples: int | None = None


@resolved
class JudgeCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``trivium trust certify`` for one dimension, as far as a suite needs it.

    Attributes:
        name: File name of the certificate.
        dimension: The judged dimension.
        confidence: The confidence function that the threshold applies to.
        threshold: Lowest confidence of an accepted judgement; None accepts none.
        epsilon: Tolerated error rate among accepted judgements.
        delta: Probability that the error rate exceeds ``epsilon``.
        judged_by: How the judgements were made.
        tolerance: Largest distance from the human label at which a judgement counted as right.
        calibrator: The calibrator artifact that the confidence needs, or None.
        coverage: Share of the judgements that it accepted when it was made; None if it does not say.
        groups: Groups of the judgements that it was made from; None if it does not say.
        group_size: It holds if no group has more judgements than this; None if it does not say.
    """

    name: str
    dimension: str
    confidence: str
    threshold: float | None
    epsilon: float
    delta: float
    judged_by: JudgedBy
    tolerance: float = 0.0
    calibrator: JsonObject | None = None
    coverage: Annotated[float, Meta(ge=0, le=1)] | None = None
    groups: Annotated[int, Meta(ge=0)] | None = None
    group_size: Annotated[int, Meta(ge=1)] | None = None


def read_certificates(raw: Any, folder: Path) -> tuple[list[Any], list[Problem]]:
    """Replace the files named in ``judge.certificate`` by their contents, and list every mistake.

    Args:
        raw: A file, a certificate, or a list of these.
        folder: Base folder of relative paths.
    """
    entries = list(raw) if isinstance(raw, list | tuple) else [raw]
    made: list[Any] = []
    problems: list[Problem] = []
    for entry in entries:
        if not isinstance(entry, str | Path):
            made.append(entry)
            continue
        try:
            made.append(msgspec.to_builtins(read_certificate(folder / entry)))
        except SuiteError as error:
            problems += [Problem(f"judge.certificate: {each.where}", each.what) for each in placed(error)]
    named = [each.get("dimension") for each in made if isinstance(each, Mapping)]
    for dimension in dict.fromkeys(named):
        if named.count(dimension) > 1:
            problems.append(Problem("judge.certificate", f'two certificates are of "{dimension}"'))
    return made, problems


def loaded(entries: Iterable[str | JudgeCertificate]) -> tuple[JudgeCertificate, ...]:
    """Load the certificates that are given as files.

    Raises:
        SuiteError: If a file is not a certificate.
    """
    return tuple(read_certificate(Path(each)) if isinstance(each, str) else each for each in entries)


def read_certificate(path: Path) -> JudgeCertificate:
    """Read a certificate from a file.

    Raises:
        SuiteError: If the file is not a certificate for judgements of a run.
    """
    raw = read_document(path)
    if not isinstance(raw, Mapping) or "threshold" not in raw or "epsilon" not in raw:
        raise SuiteError(str(path), f"is no certificate; one is made by {MADE_BY}")
    if raw.get("dimension") is None or raw.get("judged_by") is None:
        raise SuiteError(
            str(path),
            "does not say which dimension it is of and who judged it, since it was made from a file of "
            f"items: make it from the run itself, by {MADE_BY}",
        )
    try:
        return msgspec.convert({**raw, "name": str(raw.get("name") or path.name)}, JudgeCertificate)
    except msgspec.ValidationError as error:
        raise SuiteError(str(path), str(error)) from error
