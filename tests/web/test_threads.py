"""Slow requests let others pass."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.labels.labelled import judged
from trivium.errors import InputError
from trivium.store.tokens import Tokens
from trivium.web.pages import comparison
from trivium.web.security import Access
from trivium.web.threads import SLOW_AT_ONCE


@pytest.fixture
def slow(monkeypatch):
    """Comparisons that take until they are let go; counts how many are worked on, and the most at once."""
    begun, go = threading.Event(), threading.Event()
    counts = {"now": 0, "most": 0, "all": 0}
    lock = threading.Lock()

    def comparing(*_, **__):
        with lock:
            counts["now"] += 1
            counts["all"] += 1
            counts["most"] = max(counts["most"], counts["now"])
        begun.set()
        assert go.wait(60)
        with lock:
            counts["now"] -= 1
        raise InputError("", "cannot be compared")

    monkeypatch.setattr(comparison, "compare", comparing)
    yield begun, go, counts
    go.set()


def test_many_slow_requests_at_once_keep_neither_logins_nor_readiness_waiting(connect, store, slow):
    begun, go, counts = slow
    first, second = judged(store), judged(store)
    _, secret = Tokens(store).create("ann", ("read",), now=0, actor="test")
    client = connect(Access(tokens=True))
    headers = {"Authorization": f"Bearer {secret}"}
    ways = [(first.id, second.id), (second.id, first.id)]
    pairs = [f"compare/{base}/{head}?force={force}" for base, head in ways for force in ("true", "false")]
    paths = [f"{place}/{pair}" for pair in pairs for place in ("", "/api/v1")] * 5
    with ThreadPoolExecutor(len(paths)) as pool:
        answers = [pool.submit(client.get, path, headers=headers) for path in paths]
        try:
            assert begun.wait(60)
            # While no comparison ends, these are answered all the same.
            assert client.get("/readyz").status_code == 200
            assert client.get("/api/v1/runs", headers=headers).status_code == 200
            assert client.get("/runs", headers=headers).status_code == 200
        finally:
            go.set()
        assert {answer.result().status_code for answer in answers} == {400}
    assert len(pairs) <= counts["all"] <= len(paths)
    assert 1 <= counts["most"] <= SLOW_AT_ONCE
