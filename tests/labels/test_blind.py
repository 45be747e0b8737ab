"""A labeller sees the attempt, and nothing that anybody thought of it."""

import msgspec
import pytest
from sqlalchemy import delete

from tests.runs.judged_runs import judged_run, judgement
from trivium.errors import InputError
from trivium.labels.blind import material_of
from trivium.store import schema


def test_neither_verdict_nor_confidence_nor_reason_is_sent(queues, store):
    detail = {"confidence": 0.987, "model": "SECRET-model", "votes": [{"reason": "SECRET"}]}
    score = judgement(0.125, reason="SECRET reason", detail=detail)
    run = judged_run(store, {"c0": [score]}, outputs={"c0": "the answer"}).record
    queue = queues.create(run, "clarity", by="ann")
    task = queues.next(queue.id, "ann")
    sent = msgspec.json.encode([task, material_of(store, task)]).decode()
    assert "the answer" in sent
    for hidden in ("SECRET", "0.987", "0.125", "confidence", "verdict"):
        assert hidden not in sent


def test_the_run_of_an_item_may_be_deleted(queues, run, store):
    queue = queues.create(run, "clarity", by="ann")
    task = queues.next(queue.id, "ann")
    with store.engine.begin() as connection:
        connection.execute(delete(schema.runs))
    with pytest.raises(InputError, match="was deleted"):
        material_of(store, task)
