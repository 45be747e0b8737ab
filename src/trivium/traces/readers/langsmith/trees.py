"""Trees: the runs of a file sorted into traces, whatever their order and nesting."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from trivium.errors import TraceError
from trivium.traces.readers.fields import snake, text
from trivium.traces.readers.langsmith.graphs import with_graph_agents
from trivium.traces.readers.langsmith.runs import graph_run, handoffs, metadata_of, span_of
from trivium.traces.readers.records import Left, Record, counted_once, first_record, told_once, unwrapped
from trivium.traces.repair import normalise
from trivium.traces.trace import Trace, TraceProblem

_WRAPPERS = ("runs", "post", "patch")
_THREADS = ("thread_id", "conversation_id")


def sniff(document: Any) -> bool:
    """Whether a JSON value is a run, or holds runs."""
    record = first_record(document, *_WRAPPERS)
    return record is not None and _is_run(record)


def _is_run(record: Record) -> bool:
    return "run_type" in record or "dotted_order" in record


def read(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file, in the order in which they are first named."""
    left = Left("run of LangSmith")
    records = _flat(documents, left)
    if not records:
        raise TraceError(source, "holds no run of LangSmith (an object with a run_type)")
    problems = left.problems()
    traces = []
    for name, group in _by_trace(records).items():
        traces.append(_trace(name, group, problems))
        problems = []  # said once, with the first trace
    return traces


def _flat(documents: Sequence[Any], left: Left) -> list[Record]:
    """Every run, parents before the children that they hold; nesting is walked without recursion."""
    records = []
    for place, item in enumerate(unwrapped(documents, *_WRAPPERS), start=1):
        top = snake(item) if isinstance(item, dict) else {}
        if not _is_run(top) and "child_runs" not in top:
            left.out(place)
            continue
        stack: list[tuple[Record, str | None, str | None]] = [(top, None, None)]
        while stack:
            value, parent, trace = stack.pop()
            record = {key: field for key, field in value.items() if key != "child_runs"}
            _complete(record, parent, trace)
            records.append(record)
            children = value.get("child_runs")
            if isinstance(children, list):
                name, inner = text(record, "id"), text(record, "trace_id")
                found = [snake(child) for child in reversed(children) if isinstance(child, dict)]
                stack += [(child, name, inner) for child in found]
    return records


def _complete(record: Record, parent: str | None, trace: str | None) -> None:
    """Fills in the parent, the trace and the start from the nesting and the ``dotted_order``."""
    dotted = text(record, "dotted_order") or ""
    if text(record, "parent_run_id") is None:
        *_, above, _ = ("", "", *dotted.rsplit(".", 2)) if "." in dotted else ("", "", "")
        listed = record.get("parent_run_ids")
        last = listed[-1] if isinstance(listed, list) and listed and isinstance(listed[-1], str) else None
        record["parent_run_id"] = parent or _id(above) or last
    if text(record, "id") is None and dotted:
        record["id"] = _id(dotted.rsplit(".", 1)[-1])
    if text(record, "trace_id") is None:
        record["trace_id"] = trace or _id(dotted.split(".", 1)[0])
    if record.get("start_time") is None and dotted:
        record["start_time"] = _start(dotted.rsplit(".", 1)[-1])


def _id(segment: str) -> str | None:
    """The run's id in a segment of a dotted order, ``20230914T223155647Z<id>``."""
    return segment.partition("Z")[2] or None


def _start(segment: str) -> float | None:
    stamp = segment.partition("Z")[0]
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _by_trace(records: list[Record]) -> dict[str, list[Record]]:
    """The runs of each trace; one that does not say its trace is in that of the run above it."""
    known: dict[str, str] = {}
    above: dict[str, str | None] = {}
    for record in records:
        name = text(record, "id")
        if name is not None:
            above.setdefault(name, text(record, "parent_run_id"))
            trace = text(record, "trace_id")
            if trace is not None:
                known.setdefault(name, trace)
    groups: dict[str, list[Record]] = {}
    for record in records:
        trace = text(record, "trace_id")
        if trace is None:
            trace = _looked_up(text(record, "id"), known, above)
        groups.setdefault(trace, []).append(record)
    return groups


def _looked_up(name: str | None, known: dict[str, str], above: dict[str, str | None]) -> str:
    """The trace of a run by those above it; the topmost run's id where none says."""
    trail: list[str] = []
    seen = set()
    while name is not None and name not in known and name not in seen:
        seen.add(name)
        trail.append(name)
        name = above.get(name)
    trace = known.get(name, "") if name is not None else trail[-1] if trail else ""
    known |= dict.fromkeys(trail, trace)
    return trace


def _trace(name: str, records: list[Record], problems: list[TraceProblem]) -> Trace:
    records, repeats = told_once(records, ended="end_time")
    spans = [span_of(f"run-{index}", record) for index, record in enumerate(records)]
    stated = handoffs(spans, records)
    trace = normalise(
        spans,
        stated,
        trace_id=name,
        problems=[*problems, *repeats],
        metadata=_metadata(records),
        nested=True,
    )
    return counted_once(with_graph_agents(trace, [graph_run(record) for record in records], stated))


def _metadata(records: list[Record]) -> dict[str, Any]:
    """What is known of the whole: its name, tags and thread, as the first root says."""
    for record in records:
        if text(record, "parent_run_id") is None:
            places = (
                (record, ("name", "session_id", "tags", "feedback_stats")),
                (metadata_of(record), _THREADS),
            )
            return {key: place[key] for place, keys in places for key in keys if place.get(key)}
    return {}
