"""Runs with given scores, and comparisons of two of them."""

import msgspec
import numpy as np

import trivium as tv
from tests.runs.suites import Says, told_suite


def run_of(store, answers, *, suite=None, **settings):
    groups = settings.pop("groups", None)
    suite = suite or told_suite(len(answers), groups=groups, **settings)
    return tv.evaluate(suite, agent=Says({f"q{i}": each for i, each in enumerate(answers)}), store=store)


def compared(store, base, head, *, settings=None, **options):
    settings = settings or {}
    return tv.compare(run_of(store, base, **settings), run_of(store, head, **settings), **options)


def drawn(count, seed=0, shift=0.0, spread=0.1):
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.3, 0.7, count)
    return base, base + shift + rng.normal(0, spread, count).clip(-0.25, 0.25)


def scored(store, method, status, *, others=None):
    """A run whose scores were made by a method."""
    from trivium.store.records import StoredEvaluation

    made = run_of(store, [0.5, 0.6, 0.7, 0.8])
    record = store.new_run(
        id=f"{made.id}-x",
        suite_name="told",
        suite=made.record.suite,
        kind="recorded",
        settings=made.record.settings,
        attempts_from=made.record.number,
    )
    evaluations = []
    for stored in store.evaluations(made.record):
        how, what = (others or {}).get(stored.position, (method, status))
        score = msgspec.structs.replace(stored.evaluation.scores["told"], method=how, status=what)
        changed = msgspec.structs.replace(stored.evaluation, scores={"told": score})
        evaluations.append(StoredEvaluation(position=stored.position, evaluation=changed))
    store.save(record, evaluations=evaluations)
    return tv.Run(store, record)
