"""Validates sets of cases, filters them, and samples and splits them with a seed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from trivium.errors import Problem, SuiteError, raise_problems, suggest
from trivium.records.validation import convert, describe, unknown_key
from trivium.safe_text import sanitise
from trivium.suites.case import Case, CaseTuple
from trivium.values import text_or_json

Condition = Callable[[Case], bool]


def value_at(case: Case, key: str) -> Any:
    """Return a case's value at a field, a dotted path (``expect.output``) or a metadata key; else None."""
    first, _, rest = key.replace("__", ".").partition(".")
    if first not in Case.__struct_fields__:
        return _below(case.metadata, key)
    value = getattr(case, first)
    return _below(value, rest) if rest else value


def _below(value: Any, path: str) -> Any:
    """Return the value at a dotted path; keys that contain dots are found, too."""
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else getattr(value, step, None)
    return value


def case_filter(fields: Mapping[str, Any]) -> Condition:
    """Make a predicate: whether a case has these values at these fields.

    Raises:
        SuiteError: If a case has no such field.
    """
    for key in fields:
        first = key.replace("__", ".").partition(".")[0]
        if first not in Case.__struct_fields__:
            raise SuiteError("", Problem("filter", unknown_key(first, Case.__struct_fields__)))
    return lambda case: all(_matches(value_at(case, key), wanted) for key, wanted in fields.items())


def _matches(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, set | frozenset):
        return any(_matches(value, one) for one in wanted)
    if isinstance(wanted, Mapping):
        return all(_matches(_below(value, str(key)), one) for key, one in wanted.items())
    if isinstance(value, list | tuple):
        return list(value) == list(wanted) if isinstance(wanted, list | tuple) else wanted in value
    return bool(value == wanted)


def _hash_rank(name: str, seed: int) -> int:
    """Hash a name with the seed to 128 bits, the same on every machine."""
    return int.from_bytes(blake2b(f"{seed}\0{name}".encode(), digest_size=16).digest(), "big")


def seeded_sample(n: int, names: Iterable[str], *, seed: int) -> list[int]:
    """Return the indices of the ``n`` names with the smallest hashes, ascending."""
    from heapq import nsmallest

    drawn = nsmallest(n, ((_hash_rank(name, seed), index) for index, name in enumerate(names)))
    return sorted(index for _, index in drawn)


def split_by_group(groups: Sequence[str], shares: Sequence[float], *, seed: int) -> list[list[int]]:
    """Split members into parts by group; return the indices of each part.

    Groups are ordered by their hashes, and the order is cut according to the shares; a group goes to the part
    that contains its middle.

    Args:
        groups: Group of each member.
        shares: Relative sizes of the parts, all above 0.
        seed: Seed of the hashes.
    """
    members: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    cuts, so_far = [], 0.0
    for share in shares:
        so_far += share
        cuts.append(so_far / sum(shares) * len(groups))
    parts: list[list[int]] = [[] for _ in shares]
    passed = 0
    for group in sorted(members, key=lambda name: (_hash_rank(name, seed), name)):
        middle = passed + len(members[group]) / 2
        part = next((i for i, cut in enumerate(cuts) if middle <= cut), len(shares) - 1)
        parts[part].extend(members[group])
        passed += len(members[group])
    return [sorted(part) for part in parts]


def group_of(case: Case, key: str | None) -> str | None:
    """Return the cluster of a case: the value at ``key`` as text (default: its group, else its id)."""
    if key in (None, "group"):
        return case.group or case.id
    if key == "id":
        return case.base_id
    value = value_at(case, str(key))
    return None if value is None else text_or_json(value, canonical=True)


def checked_cases(raw: Iterable[Any], *, source: str) -> CaseTuple:
    """Convert Cases or mappings to checked cases.

    Raises:
        SuiteError: With every mistake found.
    """
    cases, problems = cases_of((f"cases[{index}]", one) for index, one in enumerate(raw))
    raise_problems(problems, source)
    return cases


def cases_of(placed: Iterable[tuple[str, Any]]) -> tuple[CaseTuple, list[Problem]]:
    """Convert raw values, each with its place for messages, to cases, and list every mistake."""
    cases: list[Case] = []
    problems: list[Problem] = []
    places: dict[str, str] = {}
    for where, raw in placed:
        case, wrong = _case_of(raw, where)
        problems.extend(wrong)
        if case is None:
            continue
        if case.id in places:
            what = f'duplicate id "{case.id}" (first in {places[case.id].rstrip(":")})'
            problems.append(Problem(where.rstrip(":"), what))
        places.setdefault(case.id, where)
        cases.append(case)
    return CaseTuple(cases), problems


def _case_of(raw: Any, where: str) -> tuple[Case | None, list[Problem]]:
    if isinstance(raw, Case):
        try:
            raw = {name: msgspec.to_builtins(getattr(raw, name)) for name in Case.__struct_fields__}
        except (TypeError, ValueError, RecursionError) as wrong:
            return None, [Problem(where.rstrip(":"), f"is no JSON value: {wrong}")]
    return convert(sanitise(raw)[0], Case, where)


def check_groups(cases: Iterable[Case], key: str | None, source: str) -> None:
    """Check that every case has a value at the key by which cases are grouped.

    Args:
        cases: The cases of a suite.
        key: The setting ``group``.
        source: Name of the suite in messages.

    Raises:
        SuiteError: If a case has no such value.
    """
    if key in (None, "id", "group"):
        return
    problems = [
        Problem(
            f'case "{case.id}"', f'has no "{key}", which the setting group names{_nearest(case, str(key))}'
        )
        for case in cases
        if value_at(case, str(key)) is None
    ]
    raise_problems(problems, source)


def _nearest(case: Case, key: str) -> str:
    return suggest(key, [*Case.__struct_fields__, *case.metadata]) or f" (found {describe(case.metadata)})"
