"""Hypothesis strategies shared by the tests: cases, settings, suites, traces, graphs."""

from typing import Any

from hypothesis import strategies as st

from trivium.suites.case import COMPLEXITIES, Case, Expect, ExpectedTool, ExpectTurn, SimulatedUser, Turn
from trivium.suites.rubrics.rubric import ANCHORS, Criterion, Dimension, Level, Rubric
from trivium.suites.settings import Gate, JudgeSettings, Limits, Settings, SuccessRule, ToolSettings
from trivium.suites.suite import Suite
from trivium.traces.normalize import normalise
from trivium.traces.trace import Message, Span, Trace

# What the door lets through: no lone surrogates, no NUL.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
names = texts.filter(bool)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(names, json_values, max_size=3)
tuples_of_texts = st.lists(texts, max_size=3).map(tuple)

expected_tools = st.builds(
    ExpectedTool, name=texts, arguments=st.none() | json_objects, reads=st.none() | st.booleans()
)
expects = st.builds(
    Expect,
    tools=st.none() | st.lists(expected_tools, max_size=2).map(tuple),
    optimal_tools=st.none() | st.dictionaries(names, texts, max_size=2),
    workflow=st.none() | tuples_of_texts,
    aspects=tuples_of_texts,
    output=st.none() | texts,
)


turn_expectations = st.builds(
    ExpectTurn,
    contains=tuples_of_texts,
    lacks=tuples_of_texts,
    tools=st.none() | st.lists(expected_tools, max_size=2).map(tuple),
)
turns = st.lists(
    texts | st.builds(Turn, user=texts, expect=st.none() | turn_expectations), min_size=1, max_size=3
)


def cases(ids: st.SearchStrategy[str] = names) -> st.SearchStrategy[Case]:
    """Cases of every shape: with an input, and conversations."""
    return (
        _cases(ids, input=json_values)
        | _cases(ids, turns=turns.map(tuple))
        | _cases(ids, user=st.builds(SimulatedUser, goal=names, knows=tuples_of_texts))
    )


def _cases(ids: st.SearchStrategy[str], **asked: st.SearchStrategy[Any]) -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        id=ids,
        **asked,
        references=tuples_of_texts,
        source=st.none() | texts,
        expect=expects,
        tags=st.lists(st.sampled_from(["a", "b", "long tail", "no"]), max_size=3).map(tuple),
        complexity=st.sampled_from(COMPLEXITIES),
        group=st.none() | names,
        metadata=json_objects,
    )


bars = st.floats(0, 1)
weights = st.floats(1e-3, 1e3)
levels = st.dictionaries(names, bars, min_size=2, max_size=4) | st.dictionaries(
    names, st.builds(Level, value=bars, means=names), min_size=2, max_size=4
)
anchors = st.just(ANCHORS) | st.builds(lambda text: {"1": text, "3": text, "5.0": text}, names)
criteria = st.lists(st.sampled_from("abc"), min_size=1, unique=True).flatmap(
    lambda chosen: st.tuples(
        *(
            st.builds(Criterion, name=st.just(name), asks=names, weight=weights, anchors=anchors)
            for name in chosen
        )
    )
)
dimensions = (
    st.builds(Dimension, name=st.just("d"), asks=names, criteria=criteria, weight=weights)
    | st.builds(Dimension, name=st.just("d"), asks=names, levels=levels, weight=weights)
    | st.builds(Dimension, name=st.just("d"), asks=names, claims=st.just(True))
)
rubrics = st.builds(
    Rubric,
    name=st.just("mine"),
    dimensions=dimensions.map(lambda dimension: (dimension,)),
    pass_mark=bars,
    scale=st.sampled_from([None, "ratio", "minmax"]),
    step=st.sampled_from([None, 0.5, 0.2]),
    instructions=st.none() | texts.map(lambda text: f"{_plain(text)}{{rubric}}{{{{"),
    material=st.none() | texts.map(lambda text: f"{{material}}{_plain(text)}"),
)
judges = st.builds(
    JudgeSettings,
    models=st.just(("openai:one",)),
    samples=st.integers(1, 3),
    rubric=st.just(("review",)) | st.builds(lambda own: ("agent", own), rubrics),
)


def _plain(text: str) -> str:
    return text.replace("{", "").replace("}", "")


settings_of_suites = st.builds(
    Settings,
    metrics=st.none() | st.just(("cosine", "success")),
    references=st.sampled_from(["best", "mean"]),
    repeats=st.integers(1, 5),
    success=st.builds(SuccessRule, metric=st.just("cosine"), at_least=bars)
    | st.just(SuccessRule(exact=True))
    | st.just(SuccessRule(regex="a+")),
    tools=st.builds(ToolSettings, read_only=st.lists(names, max_size=2).map(tuple)),
    judge=st.none() | judges,
    limits=st.builds(Limits, seconds=st.floats(0.5, 1e4), retries=st.integers(0, 3)),
    gates=st.dictionaries(names, st.builds(Gate, at_least=bars), max_size=2),
    seed=st.integers(0, 2**53),
)


def suites() -> st.SearchStrategy[Suite]:
    """Suites with a few cases, ids only once."""
    return st.builds(
        Suite,
        name=names,
        cases=st.lists(cases(), min_size=1, max_size=5, unique_by=lambda case: case.id),
        settings=settings_of_suites,
        description=st.none() | texts,
    )


few_names = st.sampled_from(["a", "b", "c", "d", "e"])
seconds = st.none() | st.floats(-10, 10) | st.sampled_from([float("nan"), float("inf"), float("-inf")])


def hostile_spans() -> st.SearchStrategy[list[Span]]:
    """Spans with everything wrong: repeated ids, missing parents, cycles, times of any kind."""
    few_ids = st.integers(0, 8).map(str)
    span = st.builds(
        Span,
        id=few_ids,
        kind=st.sampled_from(["agent", "tool", "llm", "other"]),
        name=few_names,
        parent=st.none() | few_ids,
        agent=st.none() | few_names,
        start=seconds,
        end=seconds,
        ok=st.sampled_from([True, False, None]),
    )
    return st.lists(span, max_size=12)


messages = st.builds(
    Message,
    sender=few_names,
    receiver=few_names,
    type=st.sampled_from(["task_request", "result_delivery", "handoff", "status_update", "gossip"]),
    time=seconds,
)


def traces() -> st.SearchStrategy[Trace]:
    """Normalised traces of every shape, from hostile spans and messages."""
    return st.builds(normalise, hostile_spans(), st.lists(messages, max_size=6))


def graphs(most_nodes: int = 12) -> st.SearchStrategy[tuple[int, list[tuple[int, int]]]]:
    """A number of nodes and distinct directed edges between them, self loops included."""
    return st.integers(1, most_nodes).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=4 * n, unique=True),
        )
    )
