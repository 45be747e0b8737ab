"""Items of a log of Inspect AI: what a scorer said, beside what a person or another scorer made of it."""

from pathlib import Path

from trivium.errors import ItemsError, Problem, TraceError, suggest
from trivium.inspect_logs.log import Log
from trivium.inspect_logs.scores import PREFIX, Recorded, scores_of
from trivium.runs.items.item import Item
from trivium.runs.items.table import ItemTable, Origin, TableBuilder

SCALE = (0.0, 1.0)


def read_inspect_items(path: Path, *, mode: str | None = None) -> ItemTable:
    """One item a sample and epoch; the sample is the group.

    Without a mode they are the scores that somebody changed: the first value is the prediction, the one that
    stands now the truth. A mode ``PRED:TRUTH`` names two scorers, of which the second is held to be right.

    Args:
        path: The log.
        mode: Two scorers, such as ``model_graded_qa:expert``.

    Raises:
        ItemsError: If the log cannot be read, has no such scorer, or no score that was changed.
    """
    pair = _pair(str(path), mode)
    builder = TableBuilder(Origin(path=str(path), mode=mode), scale=SCALE)
    known: dict[str, None] = {}
    count = 0
    try:
        for sample in Log(path).samples():
            scores = {score.name.removeprefix(PREFIX): score for score in scores_of(sample.raw)}
            known.update(dict.fromkeys(scores))
            for name, pred, truth in _found(scores, pair):
                count += 1
                item = Item(group=sample.id, item=f"{name}, epoch {sample.epoch}", pred=pred, gt=truth)
                builder.add(item, count)
    except TraceError as error:
        raise ItemsError(error.source, error.problems) from error
    for name in pair or ():
        if name not in known:
            what = f'no scorer is called "{name}".{suggest(name, known)} It has: {", ".join(known) or "none"}'
            raise ItemsError(str(path), Problem("mode", what))
    if not count:
        what = "no sample has both scores" if pair else "nobody changed a score: say --mode PRED:TRUTH"
        raise ItemsError(str(path), what)
    return builder.table() if pair is None else builder.table(sides=pair)


def _pair(source: str, mode: str | None) -> tuple[str, str] | None:
    if mode is None:
        return None
    pred, colon, truth = mode.partition(":")
    if not (pred and colon and truth):
        raise ItemsError(source, Problem("mode", f'found "{mode}", expected two scorers: PRED:TRUTH'))
    return pred.removeprefix(PREFIX), truth.removeprefix(PREFIX)


def _found(
    scores: dict[str, Recorded], pair: tuple[str, str] | None
) -> list[tuple[str, float | None, float]]:
    """Name, prediction (None where the scorer abstained) and truth of each item of a sample."""
    if pair is None:
        return [
            (name, score.original, score.value)
            for name, score in scores.items()
            if score.edits and score.value is not None
        ]
    pred, truth = scores.get(pair[0]), scores.get(pair[1])
    if pred is None or truth is None or truth.value is None:
        return []
    return [(pair[0], pred.value, truth.value)]
