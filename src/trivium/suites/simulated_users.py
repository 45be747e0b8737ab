"""The setting ``user``: what the simulated users of a suite have in common, and which models play them.

Definition: docs/definitions/conversations.md#user-models.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trivium.errors import Problem, SuiteError, raise_problems
from trivium.suites.case import USER_MARK, Case, Cases, CaseView, SimulatedUser, Texts
from trivium.values import FileRecord


class UserSettings(FileRecord, frozen=True, kw_only=True):
    """What holds for each simulated user of a suite whose case says nothing else.

    Attributes:
        model: The model that plays the users; of several, each plays them all, in conversations of its own.
        persona: Who the users are, and how they speak.
        stops: When a user ends the conversation.
        turns: Largest number of turns.
    """

    model: Texts = ()
    persona: str | None = None
    stops: str | None = None
    turns: Annotated[int, Meta(ge=1, le=100)] | None = None


def user_problems(user: UserSettings) -> Iterator[Problem]:
    """Yield the mistakes in the setting whose types are correct."""
    for place, name in enumerate(user.model):
        if not name.strip():
            yield Problem(f"user.model[{place}]", "is empty, expected the name of a model")
        elif name in user.model[:place]:
            yield Problem("user.model", f'names "{name}" twice')


def with_users(cases: Cases, user: UserSettings | None, source: str) -> Cases:
    """Give the simulated users of cases what the suite says of them all.

    Args:
        cases: The cases, as they were read or with users of other settings.
        user: The setting.
        source: Name of the suite in messages.

    Raises:
        SuiteError: If an id is taken, the turns contradict a case's expectations, or the cases were chosen
            from those of other settings.
    """
    if isinstance(cases, CasesWithUsers):
        if cases.user == user:
            return cases
        cases = cases.base
        if isinstance(cases, CaseView) and isinstance(cases.base, CasesWithUsers):
            raise SuiteError(source, "user: these cases were chosen by their users: set it before that")
    return cases if user is None else CasesWithUsers(cases, user, source)


class CasesWithUsers(Cases):
    """Cases whose simulated users have what the suite says of them all.

    With several models, a case with a simulated user that names no model of its own stands here once for
    each, with the id ``CASE@MODEL`` and the group of the case.

    Args:
        base: The cases as they were read.
        user: The setting.
        source: Name of the suite in messages.
    """

    def __init__(self, base: Cases, user: UserSettings, source: str) -> None:
        self.base, self.user = base, user
        self._positions, self._models = array("Q"), array("b" if len(user.model) < 128 else "q")
        several = len(user.model) > 1
        problems: list[Problem] = []
        for position in range(len(base)):
            case = base[position]
            repeated = several and case.user is not None and case.user.model is None
            for model in range(len(user.model)) if repeated else (-1,):
                self._positions.append(position)
                self._models.append(model)
                if repeated and base.position(_id_with(case, user.model[model])) is not None:
                    taken = f'the id "{_id_with(case, user.model[model])}" is that of another case'
                    problems.append(Problem(f'case "{case.id}"', taken))
            try:
                self._merged(case, -1)
            except ValueError as wrong:
                problems.append(Problem(f'case "{case.id}"', f"with the setting user, {wrong}"))
        raise_problems(problems, source)

    def _merged(self, case: Case, model: int) -> Case:
        """The case, played by the model of this number; below 0, by its own or the only one."""
        own, suite = case.user, self.user
        if own is None:
            return case
        only = suite.model[0] if len(suite.model) == 1 else None
        user: SimulatedUser = msgspec.structs.replace(
            own,
            model=suite.model[model] if model >= 0 else own.model or only,
            persona=suite.persona if own.persona is None else own.persona,
            stops=suite.stops if own.stops is None else own.stops,
            turns=suite.turns if own.turns is None else own.turns,
        )
        if model < 0:
            return msgspec.structs.replace(case, user=user)
        name = _id_with(case, suite.model[model])
        return msgspec.structs.replace(case, id=name, group=case.group or case.id, user=user)

    def __len__(self) -> int:
        return len(self._positions)

    def _at(self, index: int) -> Case:
        return self._merged(self.base[self._positions[index]], self._models[index])

    def position(self, id: str) -> int | None:  # noqa: A002 - the name of the field
        """Index of a case, or None."""
        marks = [f"{USER_MARK}{name}" for name in self.user.model]
        for model, mark in [(-1, ""), *enumerate(marks)]:
            position = self.base.position(id.removesuffix(mark)) if id.endswith(mark) else None
            if position is None:
                continue
            place: Any = bisect_left(self._positions, position) + max(model, 0)
            if place < len(self) and (self._positions[place], self._models[place]) == (position, model):
                return int(place)
        return None


def _id_with(case: Case, model: str) -> str:
    return f"{case.id}{USER_MARK}{model}"
