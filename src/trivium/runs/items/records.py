"""Records of items, labels and judgements, as stored one per line of a file.

Definitions: docs/definitions/files.md#items, docs/definitions/files.md#labels,
docs/definitions/files.md#judgements.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from trivium.suites.case import Id
from trivium.values import FileRecord, resolved

Repeat = Annotated[int, Meta(ge=0, le=2**31 - 1)]


@resolved
class Item(FileRecord, frozen=True, kw_only=True):
    """A prediction with its truth, or a group whose run failed.

    Attributes:
        group: The cluster of the item.
        item: Name of the item within the group; required unless the group failed.
        pred: The prediction; None for an abstention. Required.
        gt: The truth. Required.
        confidence: Confidence of the prediction; higher is more confident.
        signals: Signals from which a confidence can be computed (docs/definitions/selective.md#confidence).
        success: False if the run of the group failed; the group then has no items.
    """

    group: Id
    item: Id | None = None
    pred: float | msgspec.UnsetType | None = msgspec.UNSET
    gt: float | msgspec.UnsetType | None = msgspec.UNSET
    confidence: float | None = None
    signals: dict[str, Any] | None = None
    success: bool = True


@resolved
class Label(FileRecord, frozen=True, kw_only=True):
    """A person's score of a dimension of an attempt.

    Attributes:
        case: Id of the case.
        dimension: The dimension, such as ``technical_accuracy``.
        value: The score, in [0, 1]; None only with the answer ``cannot_tell``, and then not used.
        repeat: Number of the repeat, from 0.
        by: Name of the person.
        at: Time, as written in the file.
        answer: ``label`` or ``cannot_tell``.
        run: Id of the run that was labelled.
        how: How it was asked: uniform, active, volunteered, imported or adjudicated.
        probability: Probability with which it was asked, in (0, 1].
        queue: Id of the queue that asked it.
        note: What the person wrote beside it.
    """

    case: Id
    dimension: Annotated[str, Meta(min_length=1)]
    value: Annotated[float, Meta(ge=0, le=1)] | None
    repeat: Repeat = 0
    by: str | None = None
    at: str | None = None
    answer: Literal["label", "cannot_tell"] = "label"
    run: str | None = None
    how: Literal["uniform", "active", "volunteered", "imported", "adjudicated"] | None = None
    probability: Annotated[float, Meta(gt=0, le=1)] | None = None
    queue: str | None = None
    note: str | None = None


@resolved
class Judgement(FileRecord, frozen=True, kw_only=True):
    """A judge's score of a dimension of an attempt, recorded elsewhere.

    Attributes:
        case: Id of the case.
        dimension: The dimension.
        value: The score, in [0, 1]; None if the judge abstained.
        repeat: Number of the repeat, from 0.
        reason: The judge's reason.
        model: The judge model.
        prompt: Name or hash of the prompt.
        confidence: Confidence of the judge on any scale; higher is more confident.
        signals: Its confidence signals (docs/definitions/selective.md#confidence).
        tokens: ``{input, output}`` of the request, shared by ``shared_by`` dimensions.
        cost_usd: Cost of the request, shared likewise.
        latency_seconds: Duration of the request, shared likewise.
        shared_by: Number of dimensions judged in the request.
    """

    case: Id
    dimension: Annotated[str, Meta(min_length=1)]
    value: Annotated[float, Meta(ge=0, le=1)] | None
    repeat: Repeat = 0
    reason: str | None = None
    model: str | None = None
    prompt: str | None = None
    confidence: float | None = None
    signals: dict[str, Any] | None = None
    tokens: dict[str, int] | None = None
    cost_usd: Annotated[float, Meta(ge=0)] | None = None
    latency_seconds: Annotated[float, Meta(ge=0)] | None = None
    shared_by: Annotated[int, Meta(ge=1)] | None = None
