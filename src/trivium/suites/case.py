"""Cases, their expectations, and sequences of cases."""

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, overload

import msgspec
from msgspec import UNSET, Meta

from trivium.suites.chat import chat_problem, dialogue_text, is_like_a_chat
from trivium.values import FileRecord, JsonObject, resolved, text_or_json

Complexity = Literal["simple", "medium", "complex", "very_complex"]
COMPLEXITIES: tuple[Complexity, ...] = ("simple", "medium", "complex", "very_complex")

Id = Annotated[str, Meta(min_length=1, extra={"also": "number"}, extra_json_schema={"also": "number"})]
"""A unique name. A file may have a number instead, which is stored as its decimal text."""

SINGLE = Meta(extra={"also": "single"}, extra_json_schema={"also": "string"})
"""Of a list: a file may have a single item instead."""

Texts = Annotated[tuple[str, ...], SINGLE]
"""Several texts, or a single one."""

Share = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1, le=2**53)]


class ExpectedTool(FileRecord, frozen=True, kw_only=True):
    """A tool call that a good attempt makes.

    Attributes:
        name: Name of the tool.
        arguments: Expected arguments; None accepts any.
        reads: True if the call changes no state, False if it does; None leaves it to the suite's
            ``tools.read_only``.
    """

    name: str
    arguments: dict[str, Any] | None = None
    reads: bool | None = None


class ExpectedState(FileRecord, frozen=True, kw_only=True):
    """The state of the world at the end of a good attempt; all that is stated must hold.

    Attributes:
        equals: The whole state.
        subset: A part of the state: of a mapping the named keys, each again in part; else the whole value.
        values: The value at each path, such as ``orders.1001.status``; null if nothing may be there.
        after: Calls of the world's tools: the whole state must be the one that they leave in a new world.
        query: The result of each SQL query on a SQLite state: a value, or a list of rows.
        function: ``package.module:name``, called with the state and the case. It returns whether they agree,
            or a text that says what is wrong.
    """

    equals: Any = None
    after: tuple[ExpectedTool, ...] | None = None
    subset: Any = None
    values: dict[str, Any] = {}
    query: dict[str, Any] = {}
    function: str | None = None


@resolved
class Forbidden(FileRecord, frozen=True, kw_only=True):
    """What may not happen in a good attempt.

    Attributes:
        tools: Tools that may not be called: a name, in which ``*`` stands for any characters, or a name with
            arguments.
        changes: Paths below which nothing may have changed at the end; ``*`` for the whole state.
        values: Values that may not be at a path at the end.
        query: Results that an SQL query on a SQLite state may not have at the end.
        function: ``package.module:name``, called with the state and the case; it returns whether something
            happened that may not, or a text that says what.
    """

    tools: tuple[str | ExpectedTool, ...] = ()
    changes: Texts = ()
    values: dict[str, Any] = {}
    query: dict[str, Any] = {}
    function: str | None = None


TurnNumber = Annotated[
    str,
    Meta(pattern=r"^[1-9][0-9]*$", extra={"also": "number", "words": "the number of a turn, from 1"}),
]
"""Number of a turn in a conversation, from 1, as text."""


class ExpectTurn(FileRecord, frozen=True, kw_only=True):
    """What a good agent does in one turn of a conversation (docs/definitions/conversations.md#turn-success).

    Attributes:
        contains: Texts that its reply contains, all of them.
        lacks: Texts of which its reply contains none.
        tools: Tool calls that it makes in this turn; an empty list means that it makes none.
    """

    contains: Texts = ()
    lacks: Texts = ()
    tools: tuple[ExpectedTool, ...] | None = None


class Turn(FileRecord, frozen=True, kw_only=True):
    """What the user says in one turn, and what is expected then.

    Attributes:
        user: The message: a text, or the parts of one as OpenAI's API has them.
        expect: What a good agent does in this turn. A case keeps it as ``expect.turns``.
    """

    user: str | tuple[JsonObject, ...]
    expect: ExpectTurn | None = None


@resolved
class Expect(FileRecord, frozen=True, kw_only=True):
    """What a good attempt at the case does. None means unknown.

    Attributes:
        tools: Expected tool calls, in order. An empty list means that none is needed.
        optimal_tools: Best tool for each context that a call may carry.
        workflow: Agents that should act, in order.
        aspects: Aspects that the output should cover.
        facts: Ground truth against which claims are checked.
        sources: Sources that the output may cite.
        relevant: Documents that should be retrieved, by id or by text: a list, or the grade of each, where a
            higher one is more relevant.
        output: The exact expected output: a text, or any JSON value.
        state: The state of the suite's world at the end.
        never: What may not happen.
        turns: What is expected in single turns of a conversation, by their number.
    """

    tools: tuple[ExpectedTool, ...] | None = None
    optimal_tools: dict[str, str] | None = None
    workflow: tuple[str, ...] | None = None
    aspects: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    relevant: tuple[Id, ...] | dict[str, Weight] = ()
    output: Any = None
    state: ExpectedState | None = None
    never: Forbidden | None = None
    turns: dict[TurnNumber, ExpectTurn] | None = None

    @property
    def output_text(self) -> str | None:
        """The expected output: a text itself, the canonical JSON of another value, None if unknown."""
        return None if self.output is None else text_or_json(self.output, canonical=True)


NOTHING_EXPECTED = Expect()


USER_TURNS = 12
"""Largest number of turns of a simulated user of which nothing else is said."""

USER_MARK = "@"
"""In the id of a case that several models play the user of, what stands before the model."""


class SimulatedUser(FileRecord, frozen=True, kw_only=True):
    """A model that plays the user of a conversation (docs/definitions/conversations.md#simulated-user).

    Attributes:
        goal: What the user wants of the agent.
        persona: Who the user is, and how they speak.
        knows: What the user knows and may tell; what is not there they do not know.
        model: The model that plays the user; None for the first of ``judge.models``.
        stops: When the user ends the conversation; None for when the goal is reached or given up.
        turns: Largest number of turns; None for :data:`USER_TURNS`.
    """

    goal: Annotated[str, Meta(min_length=1)]
    persona: str | None = None
    knows: Texts = ()
    model: str | None = None
    stops: str | None = None
    turns: Annotated[int, Meta(ge=1, le=100)] | None = None

    @property
    def most_turns(self) -> int:
        """Largest number of turns."""
        return USER_TURNS if self.turns is None else self.turns

    @property
    def part(self) -> str:
        """What the model is given to play: goal, persona, knowledge and end."""
        knows = "\n".join(f"- {each}" for each in self.knows) or "- nothing beside the goal"
        parts = [f"goal: {self.goal}", *([f"persona: {self.persona}"] if self.persona else [])]
        parts += [f"what the user knows:\n{knows}", *([f"ends: {self.stops}"] if self.stops else [])]
        return "\n\n".join(parts)


class Case(FileRecord, frozen=True, kw_only=True):
    """One input for an agent, with what is known about good outputs.

    Attributes:
        id: Id of the case, unique in its suite.
        input: Input of the agent: a text, or any JSON value. With ``turns``, the messages before the first
            of them; it may be left out.
        turns: What the user says, turn by turn. The agent is called for each, with the messages so far.
        user: Instead of ``turns``, a model that plays the user.
        references: Good outputs, with which the output is compared.
        source: The document that the case is about; the judge sees it and checks quotes against it.
        expect: What a good attempt does.
        tags: Words to filter by.
        complexity: How difficult the case is.
        group: The cluster that the case belongs to (default: a cluster of its own).
        metadata: Any further data; not interpreted.
    """

    one_of: ClassVar[dict[str, tuple[str, ...]]] = {"input": ("turns", "user")}
    """Fields that others may stand for."""

    id: Id
    input: Any = UNSET
    turns: tuple[str | Turn, ...] = ()
    user: SimulatedUser | None = None
    references: Texts = ()
    source: str | None = None
    expect: Expect = NOTHING_EXPECTED
    tags: Texts = ()
    complexity: Complexity = "medium"
    group: Id | None = None
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Complete a conversation: no messages before its first turn, and ``expect`` of each turn.

        Raises:
            ValueError: If there is no input, or the turns contradict it or the expectations.
        """
        if self.input is UNSET and not self.is_conversation:
            raise ValueError('"input" is missing')
        if self.turns and self.user is not None:
            raise ValueError("the case has turns and a user: keep one of them")
        if self.input is UNSET:
            msgspec.structs.force_setattr(self, "input", [])
        self._check_messages()
        if self.is_conversation:
            self._check_turns()

    def _check_messages(self) -> None:
        if self.is_conversation and not isinstance(self.input, list | tuple):
            what = "with turns, the input is the list of messages before the first, each with a role"
            raise ValueError(f"{what}; or leave it out")
        if self.is_conversation or is_like_a_chat(self.input):
            wrong = chat_problem(self.input)
            if wrong is not None:
                raise ValueError(f"input[{wrong[0]}]: {wrong[1]}")

    def _check_turns(self) -> None:
        """Check what is expected of the turns, and put it in one place."""
        own = {
            str(number): turn.expect
            for number, turn in enumerate(self.turns, 1)
            if isinstance(turn, Turn) and turn.expect is not None
        }
        stated = self.expect.turns or {}
        twice = sorted(own.keys() & stated.keys(), key=int)
        if twice:
            raise ValueError(f"turn {twice[0]} has an expect of its own and one in expect.turns: keep one")
        most = len(self.turns) if self.user is None else self.user.most_turns
        beyond = [number for number in stated if int(number) > most]
        if beyond:
            found = f"the case has {'at most ' if self.user else ''}{most} turn{'s' if most > 1 else ''}"
            first = "user.turns of the case says how many" if self.user else "the first is 1"
            raise ValueError(f"expect.turns has a turn {beyond[0]}, but {found} ({first})")
        if own:
            expect = msgspec.structs.replace(self.expect, turns=stated | own)
            turns = tuple(
                turn
                if isinstance(turn, str) or turn.expect is None
                else turn.user
                if isinstance(turn.user, str)
                else Turn(user=turn.user)
                for turn in self.turns
            )
            msgspec.structs.force_setattr(self, "expect", expect)
            msgspec.structs.force_setattr(self, "turns", turns)

    @property
    def is_conversation(self) -> bool:
        """Whether the agent is called for several turns."""
        return bool(self.turns) or self.user is not None

    @property
    def base_id(self) -> str:
        """Its id without the model that plays its user, if several do: the same for each of them."""
        model = None if self.user is None else self.user.model
        return self.id if model is None else self.id.removesuffix(f"{USER_MARK}{model}")

    @property
    def said(self) -> tuple[Any, ...]:
        """What the user says in each turn."""
        return tuple(turn.user if isinstance(turn, Turn) else turn for turn in self.turns)

    @property
    def input_shown(self) -> Any:
        """The input as people and judges see it: messages of a chat as a dialogue, any other value itself.

        Of a conversation these are the messages before it, and what the user says.
        """
        return dialogue_text(self.messages) or self.input

    @property
    def messages(self) -> list[Any]:
        """The messages that ``input_shown`` is made of; empty if the input is no chat."""
        if not self.is_conversation:
            return list(self.input) if dialogue_text(self.input) else []
        said = [{"role": "user", "content": each} for each in self.said]
        if self.user is not None:
            said = [{"role": "simulated user, whose goal is", "content": self.user.goal}]
        return [*self.input, *said]

    @property
    def input_text(self) -> str:
        """The input as text: a text itself, a dialogue, the JSON of any other value, empty without one."""
        return text_or_json(self.input_shown)


class Cases(Sequence[Case]):
    """A sequence of cases; a file-backed one reads its cases on access."""

    @abstractmethod
    def position(self, id: str) -> int | None:  # noqa: A002 - the name of the field
        """Index of a case, or None."""

    @abstractmethod
    def _at(self, index: int) -> Case:
        """The case at an index, counted from 0."""

    @overload
    def __getitem__(self, index: int) -> Case: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Case]: ...
    def __getitem__(self, index: int | slice) -> Case | Sequence[Case]:
        if isinstance(index, slice):
            return CaseTuple(self._at(place) for place in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._at(index % len(self))


class CaseTuple(tuple[Case, ...], Cases):
    """Cases in memory."""

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {case.id: index for index, case in enumerate(self)}

    def position(self, id: str) -> int | None:  # noqa: A002
        """Index of a case, or None."""
        return self._positions.get(id)

    def _at(self, index: int) -> Case:
        return self[index]


class CaseView(Cases):
    """A selection of the cases of another sequence, without a copy.

    Args:
        base: The sequence to select from.
        positions: Indices into ``base``, ascending.

    Attributes:
        base: The sequence.
    """

    def __init__(self, base: Cases, positions: Iterable[int]) -> None:
        self.base = base
        self._positions = array("Q", positions)

    def __len__(self) -> int:
        return len(self._positions)

    def _at(self, index: int) -> Case:
        return self.base[self._positions[index]]

    def position(self, id: str) -> int | None:  # noqa: A002
        """Index of a case, or None."""
        from bisect import bisect_left

        wanted = self.base.position(id)
        if wanted is None:
            return None
        place = bisect_left(self._positions, wanted)
        return place if place < len(self) and self._positions[place] == wanted else None
