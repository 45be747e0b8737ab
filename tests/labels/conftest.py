"""Fixtures: a store, and a run whose judge states confidences.

A module whose queries matter overrides ``store`` by ``store_on_both``.
"""

from collections.abc import Iterator

import pytest

from tests.labels.labelled import Clock, judged
from tests.store.conftest import url
from tests.store.postgres import any_made_url
from trivium.labels.queue import LabelQueues
from trivium.store.store import Store

__all__ = ["any_made_url", "url"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(url) -> Iterator[Store]:
    with Store(url) as opened:
        yield opened


@pytest.fixture
def store_on_both(any_url) -> Iterator[Store]:
    with Store(any_url) as opened:
        yield opened


@pytest.fixture
def queues(store, clock) -> LabelQueues:
    return LabelQueues(store, clock=clock)


@pytest.fixture
def run(store):
    return judged(store)
