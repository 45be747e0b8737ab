"""Keywords that several functions take from one record."""

import asyncio
import inspect
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypedDict, Unpack

import griffe
import pytest

from trivium.agents.attempt import Attempt
from trivium.keywords import keywords, taken

ROOT = Path(__file__).parents[1]


class Sizes(TypedDict, total=False):
    """Sizes.

    Attributes:
        width: How wide it is, in
            metres.
        height: How high it is.
    """

    width: int | None
    height: int


@keywords(height=2)
def area(name: str, **sizes: Unpack[Sizes]) -> Mapping[str, Any]:
    """Compute an area.

    Args:
        name: What it is.
        **sizes: See
            Sizes.

    Raises:
        ValueError: Never.
    """
    return {"name": name, **sizes}


@keywords(height=2)
async def area_async(name: str, **sizes: Unpack[Sizes]) -> Mapping[str, Any]:
    return {"name": name, **sizes}


class Room(Sizes, total=False):
    """A room.

    Attributes:
        width: How wide.
        height: How high.
        doors: How many.
    """

    doors: int


takes_room = keywords(height=3, doors=1)


class House:
    @classmethod
    @takes_room
    def add(cls, **room: Unpack[Room]) -> Mapping[str, Any]:
        """Add a room."""
        return {**room}


EXPLAINED = """\
Compute an area.

Args:
    name: What it is.
    width: How wide it is, in
        metres.
    height: How high it is.

Raises:
    ValueError: Never."""


def test_a_function_receives_every_keyword() -> None:
    assert area("a", width=3) == {"name": "a", "width": 3, "height": 2}
    assert asyncio.run(area_async("a", height=4)) == {"name": "a", "width": None, "height": 4}
    assert inspect.iscoroutinefunction(area_async)
    assert House.add(doors=2) == {"width": None, "height": 3, "doors": 2}


def test_the_signature_and_the_docstring_spell_them_out() -> None:
    assert list(inspect.signature(area).parameters) == ["name", "width", "height"]
    height = inspect.signature(area).parameters["height"]
    assert (height.default, height.annotation, height.kind) == (2, int, height.KEYWORD_ONLY)
    assert inspect.getdoc(area) == EXPLAINED


def test_an_unknown_keyword_is_a_type_error() -> None:
    unknown: dict[str, Any] = {"heigth": 1}
    with pytest.raises(TypeError, match=r"^area\(\) got .* argument 'heigth'. Did you mean \"height\"\?$"):
        area("a", **unknown)


def test_the_reference_spells_them_out_too() -> None:
    """Griffe reads the source of this module."""
    spec = spec_from_file_location("expand_keywords", ROOT / "docs" / "expand_keywords.py")
    assert spec is not None
    assert spec.loader is not None
    extension = module_from_spec(spec)
    spec.loader.exec_module(extension)
    loader = griffe.GriffeLoader(
        search_paths=[Path(__file__).parent], extensions=griffe.load_extensions(extension.ExpandKeywords())
    )
    found = loader.load("test_keywords")
    function = found["area"]
    written = [(each.name, str(each.annotation), each.default) for each in function.parameters]
    assert written == [("name", "str", None), ("width", "int | None", "None"), ("height", "int", "2")]
    assert function.docstring.value == EXPLAINED
    method = [(each.name, each.default) for each in found["House.add"].parameters]
    assert method == [("cls", None), ("width", "None"), ("height", "3"), ("doors", "1")]


def test_what_is_given_is_taken_by_name() -> None:
    assert taken(Sizes, {"width": 1, "name": "a"}) == {"width": 1}
    assert taken(Attempt, {"case": "1", "seconds": 2.0, "width": 1}) == {"case": "1", "seconds": 2.0}
    assert taken(("name",), {"width": 1, "name": "a"}) == {"name": "a"}
    with pytest.raises(KeyError):
        taken(("height",), {"width": 1})
