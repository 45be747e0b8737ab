"""Checks of cases as a set: each alone, ids only once, a group for each."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from trivium.errors import Problem, SuiteError, suggest
from trivium.suites.case import Case
from trivium.suites.cases import CaseTuple
from trivium.suites.door import clean
from trivium.suites.selection import value_at
from trivium.suites.validation import convert, describe

if TYPE_CHECKING:
    from trivium.suites.suite import Suite

MOST_PROBLEMS = 20
"""Mistakes that are shown; the others are counted."""


def checked_cases(raw: Iterable[Any], *, source: str) -> CaseTuple:
    """Cases made of Cases or mappings.

    Raises:
        SuiteError: With every mistake found.
    """
    cases, problems = cases_of((f"cases[{index}]", one) for index, one in enumerate(raw))
    raise_any(problems, source)
    return cases


def cases_of(placed: Iterable[tuple[str, Any]]) -> tuple[CaseTuple, list[Problem]]:
    """Cases made of raw values that are given with their places, and every mistake found."""
    cases: list[Case] = []
    problems: list[Problem] = []
    places: dict[str, str] = {}
    for where, raw in placed:
        case, wrong = _case_of(raw, where)
        problems.extend(wrong)
        if case is None:
            continue
        if case.id in places:
            said = f'duplicate id "{case.id}" (first in {places[case.id].rstrip(":")})'
            problems.append(Problem(where.rstrip(":"), said))
        places.setdefault(case.id, where)
        cases.append(case)
    return CaseTuple(cases), problems


def _case_of(raw: Any, where: str) -> tuple[Case | None, list[Problem]]:
    if isinstance(raw, Case):
        try:
            raw = {name: msgspec.to_builtins(getattr(raw, name)) for name in Case.__struct_fields__}
        except (TypeError, ValueError, RecursionError) as wrong:
            return None, [Problem(where.rstrip(":"), f"is no JSON value: {wrong}")]
    return convert(clean(raw)[0], Case, where)


def raise_any(problems: list[Problem], source: str) -> None:
    """Raise one error with all problems, if there are any; beyond the first 20 they are counted."""
    if problems:
        shown = problems[:MOST_PROBLEMS]
        raise SuiteError(source, shown, left_out=len(problems) - len(shown))


def check_groups(suite: "Suite") -> None:
    """Every case must have what ``settings.group`` names."""
    key = suite.settings.group
    if key in (None, "id", "group"):
        return
    problems = [
        Problem(
            f'case "{case.id}"', f'has no "{key}", which the setting group names{_nearest(case, str(key))}'
        )
        for case in suite
        if value_at(case, str(key)) is None
    ]
    raise_any(problems, f'suite "{suite.name}"')


def _nearest(case: Case, key: str) -> str:
    return suggest(key, [*Case.__struct_fields__, *case.metadata]) or f" (found {describe(case.metadata)})"
