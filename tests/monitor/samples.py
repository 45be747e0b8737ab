"""Scored samples for the tests of windows, levels and alerts."""

from collections.abc import Mapping
from typing import Any

import msgspec

from trivium.store import schema
from trivium.store.live_alerts import locked_state
from trivium.store.live_samples import Sample
from trivium.store.store import Store

BEGIN = 1_700_000_000.0


def sample(number: int, passed: float | bool | None = True, **fields: Any) -> Sample:
    """A sample of a monitor; ``agent``, ``tool``, … are its facets."""
    names = ("agent", "tool", "tag", "model", "version", "service")
    facets = {name: (fields.pop(name),) for name in names if name in fields}
    time = fields.pop("time", BEGIN + 60.0 * number)
    score = fields.pop("score", None if passed is None else float(passed))
    values: dict[str, Any] = {
        "number": number, "monitor": "support", "trace": f"t{number}", "version": 1, "run": 1,
        "position": number, "time": time, "scored": time, "probability": 1.0, "weight": 1.0, "rule": "",
        "score": score, "passed": None if passed is None else bool(passed), "confidence": None,
        "failed": False, "seconds": 1.0, "query": f"question {number}", "output": f"answer {number}",
        "session": None, "facets": facets,
    }  # fmt: skip
    return Sample(**(values | fields))


def store_samples(store: Store, samples: list[Sample]) -> None:
    """Write samples as the scorer does; their numbers are the database's."""
    rows = []
    scores = []
    for each in samples:
        row = {
            name: getattr(each, name) for name in Sample.__struct_fields__ if name not in {"number", "scores"}
        }
        rows.append({**row, "facets": msgspec.json.encode(each.facets).decode()})
        scores += [
            {
                "monitor": each.monitor, "trace": each.trace, "version": each.version, "metric": metric,
                "fingerprint": "", "trial": 0, "status": "ok", "value": value,
            }
            for metric, value in each.scores.items()
        ]  # fmt: skip
    with store.engine.begin() as connection:
        if rows:
            connection.execute(schema.live_samples.insert(), rows)
        if scores:
            connection.execute(schema.live_scores.insert(), scores)


def open_alert(
    store: Store,
    monitor: str = "support",
    *,
    now: float,
    cause: str = "quality",
    body: Mapping[str, Any] | None = None,
) -> int:
    """Store an alert that fires, as the watcher does; returns its number."""
    with locked_state(store, monitor, "test", now) as state:
        return state.open_alert(cause=cause, status="critical", body=body or {}, now=now)


def store_traffic(store: Store, time: float, *, service: str | None = None) -> None:
    """Write that an interaction came at a time."""
    row = {
        "trace": f"seen {time} {service}", "state": "complete", "version": 1, "first": time, "last": time,
        "opened": time, "due": time, "root": True, "spans": 0, "size": 0, "service": service, "late": False,
    }  # fmt: skip
    with store.engine.begin() as connection:
        connection.execute(schema.live_traces.insert().values(row))


def deliveries_of(store: Store, alert: int) -> list[dict[str, Any]]:
    """The messages of an alert, oldest first."""
    table = schema.live_deliveries
    with store.engine.connect() as connection:
        rows = connection.execute(table.select().where(table.c.alert == alert).order_by(table.c.number))
        return [dict(row) for row in rows.mappings()]
