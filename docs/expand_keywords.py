"""What the reference shows of functions that take their keywords from a record, as an extension of Griffe.

Griffe reads the source, where such a function has one parameter ``**name: Unpack[Record]``: this writes out
the record's keywords in its place, as ``trivium.keywords`` does when the function is imported.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from trivium.keywords import explained


class ExpandKeywords(griffe.Extension):
    """Writes out the keywords of a record in the signature and docstring of each function that takes them."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Expand the functions of a package once all of it is read."""
        for function in _functions(pkg):
            for decorator in function.decorators:
                call = _assigned(function.module, decorator.value)
                if isinstance(call, griffe.ExprCall) and call.canonical_path == "trivium.keywords.keywords":
                    _expand(function, call, loader)


def _assigned(module: griffe.Module, expression: Any) -> Any:
    """What a module assigns to a name; any other expression as it is."""
    known = module.members.get(expression.name) if isinstance(expression, griffe.ExprName) else None
    with suppress(griffe.AliasResolutionError):  # of another package
        if known is not None and known.is_attribute:
            return known.final_target.value if known.is_alias else known.value
    return expression


def _functions(within: griffe.Module | griffe.Class) -> Iterator[griffe.Function]:
    for member in [each for each in within.members.values() if not each.is_alias]:
        if isinstance(member, griffe.Function):
            yield member
        elif isinstance(member, griffe.Module | griffe.Class):
            yield from _functions(member)


def _expand(function: griffe.Function, call: griffe.ExprCall, loader: griffe.GriffeLoader) -> None:
    unpacked = [*function.parameters][-1]
    record = loader.modules_collection[unpacked.annotation.slice.canonical_path]
    plain = [str(each) for each in call.arguments if not isinstance(each, griffe.ExprKeyword)]
    named = {each.name: each.value for each in call.arguments if isinstance(each, griffe.ExprKeyword)}
    del function.parameters[unpacked.name]
    for name, field in {**record.inherited_members, **record.members}.items():
        if not field.is_attribute:
            continue
        default = named.get(name, plain[0] if plain else "None")
        function.parameters.add(
            griffe.Parameter(
                name, annotation=field.annotation, kind=griffe.ParameterKind.keyword_only, default=default
            )
        )
    if function.docstring is not None:
        function.docstring.value = explained(function.docstring.value, record.docstring.value, unpacked.name)
