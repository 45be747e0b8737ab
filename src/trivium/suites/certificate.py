"""Certificates of judges: the record that a suite applies, and reading it from files (spec: metrics, H.4)."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import Problem, SuiteError
from trivium.suites.files.documents import read_document

MADE_BY = "trivium trust certify RUN --dimension D --labels FILE --output CERTIFICATE.json"


class JudgedBy(msgspec.Struct, frozen=True, kw_only=True):
    """How the judgements were made that a certificate is of; others it says nothing about.

    Attributes:
        models: Who judged; None for judgements that do not say.
        prompts: Names or digests of the prompts; None for judgements that do not say.
        rubrics: Digest of each rubric that has the dimension, by name; empty for imported judgements.
        scale: How a Likert value became a score; None for imported judgements.
        step: Distance of two neighbouring Likert values; None for imported judgements.
        samples: Answers for each judgement; None for imported judgements.
    """

    models: tuple[str | None, ...]
    prompts: tuple[str | None, ...]
    rubrics: dict[str, str] = {}
    scale: str | None = None
    step: float | None = None
    samples: int | None = None


class JudgeCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """What ``trivium trust certify`` found of one dimension, as far as it takes to apply it.

    Attributes:
        name: The file it was read from.
        dimension: What was judged.
        confidence: Which confidence the threshold is of.
        threshold: Judgements at least this confident are accepted; None accepts none.
        epsilon: Error among the accepted that is tolerated.
        delta: Chance that the promise is broken.
        judged_by: How the judgements were made.
        tolerance: Distance from people's label up to which a judgement counted as right.
        calibrator: The artifact of the calibrator that the confidence needs, or None.
    """

    name: str
    dimension: str
    confidence: str
    threshold: float | None
    epsilon: float
    delta: float
    judged_by: JudgedBy
    tolerance: float = 0.0
    calibrator: dict[str, Any] | None = None


def read_certificates(raw: Any, folder: Path) -> tuple[list[Any], list[Problem]]:
    """Replace the files that ``judge.certificate`` names by their contents, and list every mistake.

    Args:
        raw: A file, a certificate that was read already, or a list of these.
        folder: Where relative paths start.
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
            problems += [
                Problem(f"judge.certificate: {error.source}: {each.where}".removesuffix(": "), each.what)
                for each in error.problems
            ]
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
        SuiteError: If it is none, or not of the judgements of a run.
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
