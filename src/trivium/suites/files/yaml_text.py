"""YAML, read safely: no objects, no alias bombs, no key twice, and words stay words.

Scalars follow YAML 1.2's core schema: ``no`` and ``on`` are texts, ``12:30`` and ``2024-05-20`` too, and so
are numbers with leading zeros, because ids look like that.
"""

import math
import re
from typing import Any, ClassVar

import yaml

from trivium.suites.files.reading import Malformed

MOST_NODES = 20_000_000
"""Nodes that a document may have when its aliases are written out."""

ALIAS_GROWTH = 1_000_000
"""Nodes that aliases may add; an alias bomb has billions."""

DEEPEST = 100
"""Levels that a document may be nested."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader with the core schema's scalars."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


def _float(_: Any, node: yaml.ScalarNode) -> float:
    value = float(node.value)
    if not math.isfinite(value):
        raise yaml.constructor.ConstructorError(None, None, "the number is too large", node.start_mark)
    return value


_Loader.add_constructor("tag:yaml.org,2002:float", _float)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))
_Loader.add_constructor("tag:yaml.org,2002:bool", lambda _, node: node.value.lower() == "true")
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


def load(text: str) -> Any:
    """The raw value of a YAML text.

    Raises:
        Malformed: With line and column.
    """
    try:
        _check_depth(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as wrong:
        what = ", ".join(part for part in (wrong.context, wrong.problem) if part)
        if _is_tab(text, wrong.problem_mark):
            what = "a tab stands where YAML wants spaces"
        raise Malformed(_place(wrong.problem_mark or wrong.context_mark), f"broken YAML: {what}") from wrong
    except yaml.YAMLError as wrong:
        raise Malformed("", f"broken YAML: {wrong}") from wrong
    except ValueError as wrong:
        raise Malformed("", f"broken YAML: {wrong}") from wrong


def _is_tab(text: str, mark: Any) -> bool:
    lines = text.splitlines()
    return bool(mark) and mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t"


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def _check_depth(text: str) -> None:
    """Building nodes recurses, so how deep it would go is found from the events before."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise Malformed(_place(event.start_mark), f"is nested more than {DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check(root: yaml.Node) -> None:
    """No cycle, no key twice, and no more nodes than a document may have with its aliases written out."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    waiting: list[tuple[yaml.Node, bool]] = [(root, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            open_nodes.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in _children(node))
            continue
        if id(node) in sizes:
            continue
        if id(node) in open_nodes:
            raise Malformed(_place(node.start_mark), "an alias stands inside what it names")
        open_nodes.add(id(node))
        _check_keys(node)
        waiting.append((node, True))
        waiting.extend((child, False) for child in _children(node))
    if sizes[id(root)] > min(len(sizes) + ALIAS_GROWTH, MOST_NODES):
        raise Malformed("", f"its aliases stand for {sizes[id(root)]:,} values: that is too many")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _check_keys(node: yaml.Node) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise Malformed(_place(key.start_mark), "a key must be text")
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        key.tag = "tag:yaml.org,2002:str"  # as in JSON, a key is text whatever it looks like
        if key.value in seen:
            raise Malformed(_place(key.start_mark), f'the key "{key.value}" stands twice in one mapping')
        seen.add(key.value)
