"""A store that is always the same, to look at: two versions of a shop's agent, its judge and its traffic.

Whatever would differ from one making to the next stands still: the clock, random ids, measured times, and the
versions of Python and of packages.
"""

import itertools
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

import trivium as tv
from tests.labels.labelled import label_all
from tests.monitor.samples import sample, store_samples
from tests.runs.judged_runs import judged_run, judgement
from trivium.labels.queue import LabelQueues
from trivium.monitor.monitored import Monitored, monitored
from trivium.monitor.watcher import Watcher
from trivium.store.browsing.search_index import IDLE_SECONDS, SearchIndex
from trivium.store.labels import QueueSettings
from trivium.store.live_alerts import add_mark, alerts_of
from trivium.store.records import Provenance
from trivium.store.store import Store

NOW = 1_780_000_000.0
"""Thursday, 28 May 2026, 20:26 UTC."""

CASES = (
    ("refund", "How long may I return a jacket?", "Within 30 days of delivery, unworn and with its label."),
    ("postage", "What does postage to France cost?", "It costs 9 euros, and nothing from 80 euros on."),
    ("size", "Which size fits a chest of 96 cm?", "Size M fits a chest of 94 to 98 cm."),
    ("wash", "May I wash the wool coat at 40 degrees?", "No: wash wool by hand, at 30 degrees at most."),
    ("invoice", "Where is my invoice?", "Your invoice is in your account, under Orders."),
    ("damaged", "The zip broke after a week. What now?", "Send a photo; we repair or replace the jacket."),
    ("voucher", "Can I use two vouchers?", "One voucher can be used for each order."),
    ("late", "My parcel is five days late.", "I have asked the carrier; you hear from us within a day."),
    ("gift", "Do you wrap gifts?", "Yes, for 4 euros; choose it in the basket."),
    ("address", "I gave the wrong address.", "I have changed it, as nothing was sent yet."),
    ("vegan", "Is the belt vegan?", "Yes, it is made of cork."),
    ("cancel", "Cancel order 4711.", "Order 4711 is cancelled; you have the money within 3 days."),
)
"""Id, question and right answer of each case."""

WRONG = {"1.4": ("wash", "late", "voucher", "damaged", "size"), "1.5": ("wash", "refund")}
"""What each version of the agent answers wrongly."""

SUITE = {
    "name": "shop support",
    "metrics": ["success", "jaccard", "tool_recall", "time"],
    "success": {"exact": True},
    "cases": [
        {
            "id": case,
            "input": question,
            "references": [right],
            "tags": ["orders" if place % 3 else "goods"],
            "expect": {"tools": [{"name": "orders.find"}]},
        }
        for place, (case, question, right) in enumerate(CASES)
    ],
}
MONITORED = {"name": "shop support", "monitor": {"sample_rate": 1.0, "quiet": 0.01}}


class Shop(msgspec.Struct, frozen=True):
    """What the store holds: ids of runs and queues, and the number of the alert."""

    runs: tuple[str, str]
    judged: str
    queues: tuple[str, str]
    alert: int


@contextmanager
def standing_still() -> Iterator[None]:
    """Stop the clock, and number what would have random names."""
    numbers = itertools.count(1)
    now = time.gmtime(NOW)
    with (
        patch.object(time, "time", lambda: NOW),
        patch.object(time, "gmtime", lambda seconds=None: now),
        patch.object(secrets, "token_hex", lambda size: f"{next(numbers):0{2 * size}x}"),
        patch.dict(os.environ, {"GIT_DIR": os.devnull}),
    ):
        yield


def filled(store: Store) -> Shop:
    """Fill an empty store."""
    with standing_still():
        runs = tuple(_evaluated(store, version) for version in WRONG)
        judge = _judged(store)
        queues = _labelled(store, judge)
        alert = _watched(store)
    index = SearchIndex(store)
    while index.step() != IDLE_SECONDS:
        pass
    return Shop(runs, judge, queues, alert)


def monitors() -> list[Monitored]:
    """The monitor of the traffic."""
    return [monitored(MONITORED)]


def _evaluated(store: Store, version: str) -> str:
    outputs = list(_outputs(version))
    run = tv.evaluate(SUITE, outputs=outputs, store=store, version=version)
    of_release = {"trivium": "1.0", "python": "3.13"}
    store.set_provenance(run.record, Provenance(version=version, **of_release))
    summary = msgspec.to_builtins(run.summary())
    store.finish(run.record, "done", summary=summary | {"metadata": summary["metadata"] | of_release})
    return run.id


def _outputs(version: str) -> Iterator[dict[str, Any]]:
    for place, (case, question, right) in enumerate(CASES):
        wrong = case in WRONG[version]
        at = NOW - 9_000 + 60 * place
        spans = [
            {"id": "1", "kind": "agent", "name": "support", "start": at, "end": at + 2.4, "input": question},
            {"id": "2", "kind": "llm", "name": "model-1", "parent": "1", "start": at, "end": at + 0.9},
            {"id": "3", "kind": "tool", "name": "orders.find", "parent": "1", "start": at + 0.9,
             "end": at + 1.5, "input": {"text": question}, "ok": not wrong},
            {"id": "4", "kind": "llm", "name": "model-1", "parent": "1", "start": at + 1.5, "end": at + 2.4},
        ]  # fmt: skip
        output = f"I am not sure. {right.rpartition(',')[0]} perhaps?" if wrong else right
        yield {"case": case, "output": output, "seconds": 2.0 + 0.1 * place, "trace": {"spans": spans}}


def _judged(store: Store) -> str:
    """A run with a judge's scores, each with its reason, a quote and a confidence."""
    scores, outputs = {}, {}
    for place, (case, _, right) in enumerate(CASES):
        value = 0.25 if case in WRONG["1.5"] else 1.0 if place % 2 else 0.75
        outputs[case] = right
        detail = {
            "confidence": 0.5 + place / 24,
            "model": "model-2",
            "prompt": "0f3a",
            "samples": [value] * 3,
            "evidence": [{"quote": right[:30], "found": True, "where": ["output"]}],
            "signals": {"agreement": 1.0, "evidence": 0.9},
            "criteria": {"states the rule": {"score": value, "explanation": "It names the rule."}},
        }
        scores[case] = [judgement(value, reason="It answers what was asked.", detail=detail)]
    return judged_run(store, scores, outputs=outputs).id


def _labelled(store: Store, run: str) -> tuple[str, str]:
    """A queue that one person has begun, and one that two people answered, who disagree on some items."""
    queues = LabelQueues(store, clock=lambda: NOW)
    record = store.run(run)
    begun = queues.create(record, "clarity", by="ann", seed=1)
    label_all(queues, begun, "ann", lambda case: 1.0, most=3)
    both = queues.create(record, "clarity", by="ann", seed=2, settings=QueueSettings(overlap=1.0))
    label_all(queues, both, "ann", lambda case: 1.0 if case != "wash" else 0.25)
    label_all(queues, both, "ben", lambda case: 0.5 if case in {"refund", "late"} else 1.0)
    return begun.id, both.id


def _watched(store: Store) -> int:
    """Traffic that was fine until version 1.5 was deployed, and the alert that followed."""
    samples = []
    for number in range(160):
        version = "1.4" if number < 100 else "1.5"
        _, question, right = CASES[number % len(CASES)]
        wrong = number % 20 == 0 if version == "1.4" else number % 5 != 0
        samples.append(
            sample(
                number,
                not wrong,
                monitor="shop support",
                time=NOW - 60.0 * (160 - number),
                version=version,
                tool="orders.find",
                trace=f"{number:032x}",
                query=question,
                output="I am not sure." if wrong else right,
                seconds=(2.4 if version == "1.4" else 1.1) + number % 7 / 5,
                cost_usd=None if number % 10 == 0 else (0.0021 if version == "1.4" else 0.0034),
            )
        )
    watcher = Watcher(store, monitors(), clock=lambda: NOW)
    watcher.look(samples[0].time)
    store_samples(store, samples)
    add_mark(store, "shop support", now=samples[100].time - 30, version="1.5", note="faster model")
    watcher.look(NOW)
    (alert,) = alerts_of(store, "shop support", limit=2)
    return alert.number
