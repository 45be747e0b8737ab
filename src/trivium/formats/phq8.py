"""Reads items from a PHQ-8 run artifact: ``experiments[].results.results[]``.

Definition: docs/definitions/files.md#items.
"""

from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import ItemsError, suggest
from trivium.records.documents import parse_lenient_json, read_document
from trivium.records.validation import convert
from trivium.runs.items.records import Item
from trivium.runs.items.table import ItemTable, Origin, TableBuilder
from trivium.suites.case import Id
from trivium.values import JsonObject, resolved

SCALE = (0.0, 3.0)
"""Each item of a PHQ-8 questionnaire is answered by 0, 1, 2 or 3."""


@resolved
class _Participant(msgspec.Struct, frozen=True, kw_only=True):
    participant_id: Id
    success: bool
    predicted_items: dict[str, float | None] = {}
    ground_truth_items: dict[str, float | None] = {}
    item_signals: dict[str, JsonObject | None] = {}


class _Results(msgspec.Struct, frozen=True, kw_only=True):
    results: list[Any]
    mode: str | None = None


class _Provenance(msgspec.Struct, frozen=True, kw_only=True):
    mode: str | None = None


class _Experiment(msgspec.Struct, frozen=True, kw_only=True):
    results: _Results
    provenance: _Provenance = _Provenance()

    @property
    def mode(self) -> str:
        return self.provenance.mode or self.results.mode or ""


class _Metadata(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str | None = None
    git_commit: str | None = None


@resolved
class _Artifact(msgspec.Struct, frozen=True, kw_only=True):
    experiments: list[_Experiment]
    run_metadata: _Metadata = _Metadata()


def read_phq8(path: Path, *, mode: str | None) -> ItemTable:
    """The items of one mode of a run artifact.

    Args:
        path: The artifact.
        mode: Mode of the experiment; None if there is only one.

    Raises:
        ItemsError: If the file is not such an artifact, has no such mode, or an item is invalid.
    """
    raw = read_document(path, error=ItemsError, parse=parse_lenient_json)
    if not isinstance(raw, dict) or "experiments" not in raw:
        expected = "expected a run artifact with experiments[].results.results[], or items as .jsonl"
        raise ItemsError(str(path), expected)
    artifact, problems = convert(raw, _Artifact)
    if artifact is None:
        raise ItemsError(str(path), problems)
    experiment = _experiment(artifact, mode, path)
    metadata = artifact.run_metadata
    origin = Origin(
        path=str(path), run_id=metadata.run_id, git_commit=metadata.git_commit, mode=experiment.mode or None
    )
    builder = TableBuilder(origin, scale=SCALE)
    for position, result in enumerate(experiment.results.results):
        participant, problems = convert(_with_text_id(result), _Participant, f"results[{position}]")
        if participant is None:
            for problem in problems:
                builder.problem(position, str(problem))
        elif not participant.success:
            builder.add(Item(group=participant.participant_id, success=False), position)
        else:
            _add(builder, participant, position)
    return builder.table(default_confidence="default")


def _with_text_id(result: Any) -> Any:
    """Convert the id of a result to decimal text, which the sanitiser handles fastest."""
    if isinstance(result, dict) and type(result.get("participant_id")) is int:
        return {**result, "participant_id": str(result["participant_id"])}
    return result


def _add(builder: TableBuilder, participant: _Participant, position: int) -> None:
    """Add every item that has a truth or a prediction; one without the other is an error."""
    group = participant.participant_id
    builder.group(group)
    missing = msgspec.UNSET
    for name in {**participant.ground_truth_items, **participant.predicted_items}:
        item = Item(
            group=group,
            item=name,
            pred=participant.predicted_items.get(name, missing),
            gt=participant.ground_truth_items.get(name, missing),
            signals=participant.item_signals.get(name),
        )
        builder.add(item, position)


def _experiment(artifact: _Artifact, mode: str | None, path: Path) -> _Experiment:
    modes = [experiment.mode for experiment in artifact.experiments]
    if mode is None and len(modes) == 1:
        return artifact.experiments[0]
    state = f"has the modes {', '.join(modes)}" if modes else "has no experiment"
    if mode is None:
        raise ItemsError(str(path), f"{state}: name one with --mode")
    if modes.count(mode) != 1:
        what = f'has no mode "{mode}"' if mode not in modes else f'has several experiments of mode "{mode}"'
        raise ItemsError(str(path), f"{what}.{suggest(mode, modes)} It {state}.")
    return artifact.experiments[modes.index(mode)]
