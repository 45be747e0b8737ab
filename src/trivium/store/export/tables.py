"""Turns stored runs into flat rows and writes them as JSONL, CSV or Parquet."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, BinaryIO

import msgspec

from trivium.errors import MissingExtra
from trivium.metrics.evaluation import Composite, Evaluation, composite
from trivium.metrics.metric import Score
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.settings import CompositeSettings, Settings
from trivium.values import is_number, json_text, text_or_json

Row = dict[str, object]

MEASURED = frozenset({"time"})
"""Metrics whose value is a measured time and therefore differs between equal runs."""

VARYING_DETAILS = frozenset({"latency_seconds", "requests", "cost_usd", "passed_over"})
"""Details of a judgement that depend on the provider's state or the cache, not on what was judged."""

SCORE_COLUMNS: tuple[str, ...] = ("run", "case", "repeat", "metric", "tier", "value", "status")
SCORE_COLUMNS += ("raw", "method", "reason", "detail")
ATTEMPT_COLUMNS: tuple[str, ...] = ("case", "repeat", "output", "seconds", "trace", "usage")
ATTEMPT_COLUMNS += ("reward", "error", "flags", "metadata", "world")
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
    """Yield one row per score, composite, score of a case, and pass@k or pass^k of the run.

    Args:
        store: The store that holds the run.
        run: The run.
        stable: Leave out the run's id and everything that depends on measured times, so that equal
            inputs give equal bytes. The composite is then recomputed without those parts.
    """
    settings = run.settings
    ids = [case.id for case in store.cases(run.suite)] if _has_case_scores(store, run) else []
    for stored in store.evaluations(run):
        yield from (
            _with_run_id(row, run, stable) for row in _evaluation_rows(stored.evaluation, settings, stable)
        )
    for position, scores in store.case_scores(run):
        for score in scores.values():
            row = {"case": ids[position], "repeat": None} | _score_fields(score, stable)
            yield _with_run_id(row, run, stable)
    for name, figure in (run.summary or {}).get("metrics", {}).items():
        if name.startswith(("pass@", "pass^")):
            fields = {"metric": name, "tier": "composite", "value": figure["mean"], "status": "ok"}
            fields |= dict.fromkeys(("raw", "method", "reason"))
            detail = {key: figure[key] for key in ("ci95", "n", "groups", "method")}
            yield _with_run_id({"case": None, "repeat": None} | fields | {"detail": detail}, run, stable)


def attempt_rows(store: Store, run: RunRecord, *, stable: bool = False) -> Iterator[Row]:
    """Yield one row per attempt in the format of recorded outputs, so that they can be scored again."""
    for stored in store.attempts(run):
        row = {"case": stored.attempt.case, "repeat": stored.attempt.repeat}
        row |= msgspec.to_builtins(stored.attempt)
        if stable:
            row.pop("seconds", None)
        yield row


def summary_rows(_store: Store, run: RunRecord, *, stable: bool = False) -> Iterator[Row]:
    """Yield one row per metric: mean, interval, n, coverage, counts by status."""
    for name, figure in (run.summary or {}).get("metrics", {}).items():
        if not (stable and name in MEASURED):
            yield _with_run_id({"metric": name} | figure, run, stable)


def _has_case_scores(store: Store, run: RunRecord) -> bool:
    return next(store.case_scores(run), None) is not None


def _evaluation_rows(evaluation: Evaluation, settings: Settings, stable: bool) -> Iterator[Row]:
    attempt = {"case": evaluation.case, "repeat": evaluation.repeat}
    for score in evaluation.scores.values():
        if not (stable and score.name in MEASURED):
            yield attempt | _score_fields(score, stable)
    result = _without_times(evaluation, settings) if stable else evaluation.composite
    yield attempt | _composite_fields(result, evaluation.passed)


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


def _without_varying(detail: dict[str, object]) -> dict[str, object]:
    """Leave out ``VARYING_DETAILS`` of a judgement and of each vote of its panel."""
    fixed = {name: value for name, value in detail.items() if name not in VARYING_DETAILS}
    votes = fixed.get("votes")
    if isinstance(votes, list):
        fixed["votes"] = [_without_varying(vote) if isinstance(vote, dict) else vote for vote in votes]
    return fixed


def _composite_fields(result: Composite, passed: bool | None) -> Row:
    return {
        "metric": "composite",
        "tier": "composite",
        "value": result.value,
        "status": result.status,
        "raw": None,
        "method": None,
        "reason": result.reason,
        "detail": {
            "parts": result.parts,
            "coverage": result.coverage,
            "recommendation": result.recommendation,
            "recommendation_weight": result.recommendation_weight,
            "passed": passed,
        },
    }


def _with_run_id(row: Row, run: RunRecord, stable: bool) -> Row:
    return row if stable else {"run": run.id} | row


Writer = Callable[[Iterable[Row], Sequence[str], BinaryIO], None]

_ROWS_AT_ONCE = 2_000
_TYPES = dict.fromkeys(("value", "seconds", "reward", "mean", "coverage", "verdict", "confidence"), "float64")
_TYPES |= dict.fromkeys(("repeat", "n", "groups"), "int64")


def write_jsonl(rows: Iterable[Row], _columns: Sequence[str], file: BinaryIO) -> None:
    """Write one JSON object per line, keys in the order of the row."""
    encoder = msgspec.json.Encoder()
    file.writelines(encoder.encode(row) + b"\n" for row in rows)


def write_csv(rows: Iterable[Row], columns: Sequence[str], file: BinaryIO) -> None:
    """Write a header and one line per row; values other than text and numbers are encoded as JSON.

    Text that a spreadsheet would run as a formula is escaped (:func:`escape_formula`).
    """
    file.writelines(csv_lines(columns, ([_cell(row.get(column)) for column in columns] for row in rows)))


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """Yield a header and the lines of a CSV file."""
    writer = csv.writer(_Encoder())
    for row in chain([columns], rows):
        yield writer.writerow(row)


class _Encoder:
    """A file that returns what is written to it, and so does a writer of CSV."""

    def write(self, text: str) -> bytes:
        return text.encode()


def write_parquet(rows: Iterable[Row], columns: Sequence[str], file: BinaryIO) -> None:
    """Write typed columns; values other than text and numbers are encoded as JSON.

    Raises:
        MissingExtra: If PyArrow is not installed.
    """
    schema = arrow_schema(columns)
    import pyarrow.parquet as pq

    with pq.ParquetWriter(file, schema) as writer:
        for batch in arrow_batches(rows, columns):
            writer.write_batch(batch)


def arrow_schema(columns: Sequence[str]) -> Any:
    """Return the ``pyarrow.Schema`` of columns.

    Raises:
        MissingExtra: If PyArrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtra("parquet", "A table in columns") from error
    return pa.schema([(column, getattr(pa, _TYPES.get(column, "string"))()) for column in columns])


def arrow_batches(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[Any]:
    """Yield rows as ``pyarrow.RecordBatch``; values other than text and numbers are encoded as JSON."""
    import pyarrow as pa

    schema = arrow_schema(columns)
    remaining = iter(rows)
    while chunk := [
        {column: _typed(column, row.get(column)) for column in columns}
        for row in islice(remaining, _ROWS_AT_ONCE)
    ]:
        yield pa.RecordBatch.from_pylist(chunk, schema=schema)


_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
"""Matches the start of a text that a spreadsheet takes for a formula, escaped or not."""


def escape_formula(text: str) -> str:
    """Prefix an apostrophe to text that a spreadsheet would run as a formula, and to text so prefixed."""
    return f"'{text}" if _FORMULA.match(text) else text


def unescape_formula(cell: str) -> str:
    """Undo :func:`escape_formula`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return escape_formula(value)
    return value if value is None or is_number(value) else json_text(value)


def _typed(column: str, value: Any) -> Any:
    if value is None or column in _TYPES:
        return value
    return text_or_json(value)


WRITERS: dict[str, Writer] = {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet}
