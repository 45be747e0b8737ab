"""Prepares a confirming run: cases, settings and metrics of its run, and repeats that were not made yet."""

from collections import defaultdict

import msgspec

from trivium.errors import ComparisonError, Problem
from trivium.runs.checks import prepared
from trivium.runs.comparing.decision import differences_from
from trivium.runs.pipeline import Prepared
from trivium.runs.provenance import confirms, judge_provenance
from trivium.runs.run import Run
from trivium.suites.suite import Suite


def prepared_again(run: Run) -> Prepared:
    """What a confirming run computes: what its run did, without what supposes that all cases are asked.

    Args:
        run: The run that is asked again.

    Raises:
        ComparisonError: If the numbers would not mean the same.
    """
    settings = run.record.settings
    judge = settings.judge and msgspec.structs.replace(settings.judge, certificate=())
    settings = msgspec.structs.replace(
        settings, gates={}, until_decided=False, repeats=1, agent=None, judge=judge
    )
    suite = Suite(name=run.record.suite_name, cases=tuple(run.cases()), settings=settings)
    found = prepared(suite, {}, settings.metrics, saves="", against=False)
    unlike = differences_from(
        run,
        kind="confirm",
        provenance={"metrics": {each.name: each.version for each in found.metrics}}
        | judge_provenance(found.metrics, found.settings),
        settings=found.settings,
        suite=run.record.suite,
        cases=tuple,
    )
    if problems := [Problem("", what) for what in unlike]:
        raise ComparisonError(f"run {run.id} cannot be asked again with the same numbers", problems)
    return found


def next_repeats(run: Run) -> dict[int, int]:
    """The next repeat of each case, so that no attempt has the seed of an earlier one."""
    repeats = run.record.settings.repeats
    found: defaultdict[int, int] = defaultdict(lambda: repeats)
    for other in run.store.confirm_runs(run.record.suite_name):
        if (what := confirms(other)) is not None and what.run == run.id:
            for position, repeat in run.store.attempt_keys(other):
                found[position] = max(found[position], repeat + 1)
    return {position: found[position] for position, _ in enumerate(run.cases())}
