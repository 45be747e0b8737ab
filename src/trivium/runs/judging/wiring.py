"""Wiring: the judges of a run get its purse and its answers, both kept in the store as it goes."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trivium.metrics.judge.dimensions import account_of
from trivium.metrics.judge.spending.purse import RunPurse
from trivium.metrics.metric import Metric
from trivium.store.answers import StoredAnswers
from trivium.store.books import StoredBooks
from trivium.store.records import RunRecord
from trivium.store.store import Store

log = logging.getLogger(__name__)


@contextmanager
def judges_of(run: RunRecord, store: Store, metrics: Sequence[Metric]) -> Iterator[None]:
    """Let the judges among some metrics spend and keep in the name of a run.

    Args:
        run: Owned by this process.
        store: Where it is.
        metrics: Those that score it.

    Raises:
        StoreError: If what was kept or spent cannot be written.
    """
    account = account_of(metrics)
    if account is None:
        yield
        return
    settings = account.settings
    answers = StoredAnswers(store, run, shared=settings.cache)
    books = StoredBooks(store, run)
    purse = RunPurse(
        account.prices, budget_usd=settings.budget_usd, budget_tokens=settings.budget_tokens, books=books
    )
    account.use(answers=answers, purse=purse)
    try:
        yield
    finally:
        # What is drawn and not spent is given back last, when nothing can be in flight any more.
        answers.close()
        purse.close()
        books.close()
