"""Turns stored runs into flat rows and writes them as JSONL, CSV or Parquet."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

import msgspec

from trivium.errors import MissingExtra
from trivium.metrics.evaluation import Composite, Evaluation, composite
from trivium.metrics.metric import Score
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.settings import CompositeSettings, Settings

Row = dict[str, Any]

MEASURED = frozenset({"time"})
"""Metrics whose value is a measured time, and differs when all else is equal."""

VARYING_DETAILS = frozenset({"latency_seconds", "requests", "cost_usd", "passed_over"})
"""Facts about a judgement that tell of the provider's day and of the cache, not of what was judged."""

SCORE_COLUMNS: tuple[str, ...] = ("run", "case", "repeat", "metric", "tier", "value", "status")
SCORE_COLUMNS += ("raw", "method", "reason", "detail")
ATTEMPT_COLUMNS: tuple[str, ...] = ("case", "repeat", "output", "seconds", "trace", "usage")
ATTEMPT_COLUMNS += ("reward", "error", "flags", "metadata")
SUMMARY_COLUMNS = (
    "run",
    "metric",
    "tier",
    "mean",
    "ci95",
    "method",
    "n",
    "coverage",
    "groups",
    "status",
    "bounds",
)


def score_rows(store: Store, run: RunRecord, *, stable: bool = False) -> Iterator[Row]:
    """One row a score, one a composite, one a figure of a case and one a figure of the run.

    Args:
        store: Where the run is.
        run: The run.
        stable: Leave out the run's id and everything that depends on measured times, so that equal
            inputs give equal bytes. The composite is then folded without those parts.
    """
    settings = msgspec.convert(run.settings, Settings)
    ids = [case.id for case in store.cases(run.suite)] if _has_case_figures(store, run) else []
    for stored in store.evaluations(run):
        yield from (_trim(row, run, stable) for row in _evaluation_rows(stored.evaluation, settings, stable))
    for position, scores in store.case_scores(run):
        for score in scores.values():
            yield _trim({"case": ids[position], "repeat": None} | _score_fields(score, stable), run, stable)
    for name, figure in (run.summary or {}).get("metrics", {}).items():
        if name.startswith(("pass@", "pass^")):
            fields = {"metric": name, "tier": "composite", "value": figure["mean"], "status": "ok"}
            fields |= dict.fromkeys(("raw", "method", "reason"))
            detail = {key: figure[key] for key in ("ci95", "n", "groups", "method")}
            yield _trim({"case": None, "repeat": None} | fields | {"detail": detail}, run, stable)


def attempt_rows(store: Store, run: RunRecord, *, stable: bool = False) -> Iterator[Row]:
    """One row an attempt: the format of recorded outputs, so that they can be scored again elsewhere."""
    for stored in store.attempts(run):
        row = {"case": stored.attempt.case, "repeat": stored.attempt.repeat}
        row |= msgspec.to_builtins(stored.attempt)
        if stable:
            row.pop("seconds", None)
        yield row


def summary_rows(_store: Store, run: RunRecord, *, stable: bool = False) -> Iterator[Row]:
    """One row a metric: mean, interval, n, coverage, counts by status."""
    for name, figure in (run.summary or {}).get("metrics", {}).items():
        if not (stable and name in MEASURED):
            yield _trim({"metric": name} | figure, run, stable)


def _has_case_figures(store: Store, run: RunRecord) -> bool:
    return next(store.case_scores(run), None) is not None


def _evaluation_rows(evaluation: Evaluation, settings: Settings, stable: bool) -> Iterator[Row]:
    place = {"case": evaluation.case, "repeat": evaluation.repeat}
    for score in evaluation.scores.values():
        if not (stable and score.name in MEASURED):
            yield place | _score_fields(score, stable)
    folded = _without_times(evaluation, settings) if stable else evaluation.composite
    yield place | _composite_fields(folded, evaluation.passed)


def _without_times(evaluation: Evaluation, settings: Settings) -> Composite:
    weights = {name: w for name, w in settings.composite.weights.items() if name not in MEASURED}
    rest: CompositeSettings = msgspec.structs.replace(settings.composite, weights=weights)
    return composite(evaluation.scores, rest, failed=evaluation.failed)


def _score_fields(score: Score, stable: bool) -> Row:
    judged = stable and score.tier == "judge"
    return {
        "metric": score.name,
        "tier": score.tier,
        "value": score.value,
        "status": score.status,
        "raw": score.raw,
        "method": score.method,
        "reason": score.reason,
        "detail": _without_varying(score.detail) if judged else score.detail,
    }


def _without_varying(detail: dict[str, Any]) -> dict[str, Any]:
    """The fields of a judgement, and of each vote of a panel, that do not depend on measured times."""
    kept = {name: value for name, value in detail.items() if name not in VARYING_DETAILS}
    votes = kept.get("votes")
    if isinstance(votes, list):
        kept["votes"] = [_without_varying(vote) if isinstance(vote, dict) else vote for vote in votes]
    return kept


def _composite_fields(folded: Composite, passed: bool | None) -> Row:
    return {
        "metric": "composite",
        "tier": "composite",
        "value": folded.value,
        "status": folded.status,
        "raw": None,
        "method": None,
        "reason": folded.reason,
        "detail": {
            "parts": folded.parts,
            "coverage": folded.coverage,
            "recommendation": folded.recommendation,
            "recommendation_weight": folded.recommendation_weight,
            "passed": passed,
        },
    }


def _trim(row: Row, run: RunRecord, stable: bool) -> Row:
    return row if stable else {"run": run.id} | row


Writer = Callable[[Iterable[Row], Sequence[str], BinaryIO], None]

_ROWS_AT_ONCE = 2_000
_TYPES = dict.fromkeys(("value", "seconds", "reward", "mean", "coverage", "verdict", "confidence"), "float64")
_TYPES |= dict.fromkeys(("repeat", "n", "groups"), "int64")


def write_jsonl(rows: Iterable[Row], _columns: Sequence[str], file: BinaryIO) -> None:
    """One JSON object a line, keys in the order of the row."""
    encoder = msgspec.json.Encoder()
    file.writelines(encoder.encode(row) + b"\n" for row in rows)


def write_csv(rows: Iterable[Row], columns: Sequence[str], file: BinaryIO) -> None:
    """A header, then a line a row; what is no text or number is JSON.

    A text that a spreadsheet would run as a formula gets an apostrophe before it, as does one that has
    apostrophes before it already: who reads it takes one away.
    """
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(column)) for column in columns])
    text.detach()


def write_parquet(rows: Iterable[Row], columns: Sequence[str], file: BinaryIO) -> None:
    """Typed columns; what is no text or number is JSON.

    Raises:
        MissingExtra: If PyArrow is not installed.
    """
    schema = arrow_schema(columns)
    import pyarrow.parquet as pq

    with pq.ParquetWriter(file, schema) as writer:
        for batch in arrow_batches(rows, columns):
            writer.write_batch(batch)


def arrow_schema(columns: Sequence[str]) -> Any:
    """The types of columns, a ``pyarrow.Schema``.

    Raises:
        MissingExtra: If PyArrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtra("parquet", "A table in columns") from error
    return pa.schema([(column, getattr(pa, _TYPES.get(column, "string"))()) for column in columns])


def arrow_batches(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[Any]:
    """Rows in columns, a few at a time, each a ``pyarrow.RecordBatch``; what is no text or number is JSON."""
    import pyarrow as pa

    schema = arrow_schema(columns)
    rest = iter(rows)
    while chunk := [
        {column: _typed(column, row.get(column)) for column in columns} for row in islice(rest, _ROWS_AT_ONCE)
    ]:
        yield pa.RecordBatch.from_pylist(chunk, schema=schema)


_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
"""How a text starts that a spreadsheet takes for a formula, or that was made none."""


def escape_formula(text: str) -> str:
    """A text as a cell that no spreadsheet runs; :func:`without_guard` undoes it."""
    return f"'{text}" if _FORMULA.match(text) else text


def without_guard(cell: str) -> str:
    """What a cell was before :func:`escape_formula`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return escape_formula(value)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return msgspec.json.encode(value).decode()


def _typed(column: str, value: Any) -> Any:
    if value is None or column in _TYPES:
        return value
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


WRITERS: dict[str, Writer] = {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet}
