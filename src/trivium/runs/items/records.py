"""Records of items, labels and judgements, one a line of a file (spec: files)."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trivium.suites.case import Id

Repeat = Annotated[int, Meta(ge=0, le=2**31 - 1)]


LISTED = 10
"""Mistakes that an error lists; the others are counted."""


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing to predict in one group, or a group whose run failed.

    Attributes:
        group: The cluster that it belongs to.
        item: What it is called within the group; only a failed group needs none.
        pred: What was predicted; None abstains. It must be there.
        gt: The truth. It must be there.
        confidence: How sure the prediction is; higher is surer.
        signals: Signals from which a confidence can be computed (spec: metrics, T2.5).
        success: False says that the group's run failed, and that it has no items.
    """

    group: Id
    item: Id | None = None
    pred: float | msgspec.UnsetType | None = msgspec.UNSET
    gt: float | msgspec.UnsetType | None = msgspec.UNSET
    confidence: float | None = None
    signals: dict[str, Any] | None = None
    success: bool = True


class Label(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a person says about a dimension of an attempt.

    Attributes:
        case: Id of the case.
        dimension: What was judged, such as ``technical_accuracy``.
        value: On the scale of the judged score, in [0, 1].
        repeat: Which attempt of the case.
        by: Who says so.
        at: When, as the file has it.
    """

    case: Id
    dimension: Annotated[str, Meta(min_length=1)]
    value: Annotated[float, Meta(ge=0, le=1)]
    repeat: Repeat = 0
    by: str | None = None
    at: str | None = None


class Judgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One dimension of an attempt as a judge scored it elsewhere.

    Attributes:
        case: Id of the case.
        dimension: What was judged.
        value: In [0, 1]; None where the judge abstained.
        repeat: Which attempt of the case.
        reason: What the judge said for it.
        model: Who judged.
        prompt: Name or hash of the prompt.
        confidence: How sure the judge is, on any scale; higher is surer.
        signals: Its confidence signals (spec: metrics, T2.5).
        tokens: ``{input, output}`` of the request, which ``shared_by`` dimensions share.
        cost_usd: Likewise.
        latency_seconds: Likewise.
        shared_by: How many dimensions were judged in the request.
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
