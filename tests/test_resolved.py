"""Records that are read from JSON are resolved on import: two threads that resolve one crash the process."""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import trivium
from trivium.values import resolved

SOURCE = Path(trivium.__file__).parent
RECORDS = [
    ("trivium.runs.items.records", "Item"),
    ("trivium.runs.items.records", "Label"),
    ("trivium.runs.items.records", "Judgement"),
    ("trivium.suites.rubrics.rubric", "Rubric"),
    ("trivium.traces.trace", "Span"),
    ("trivium.trust.calibration.methods", "Isotonic"),
    ("trivium.trust.calibration.methods", "LinearModel"),
    ("trivium.trust.calibration.methods", "Temperature"),
]
"""Those that a function is given as a parameter."""


def types_read(tree: ast.AST) -> Iterator[str]:
    """The types that a module converts values to, as it writes them."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:  # as ast.unparse writes it, in a tenth of the time
            case ast.Name(id=function):
                pass
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                function = f"{module}.{name}"
            case _:
                function = ast.unparse(node.func)
        if function in ("msgspec.convert", "convert") and len(node.args) > 1:
            yield ast.unparse(node.args[1])
        elif function.endswith("json.Decoder") and node.args:
            yield ast.unparse(node.args[0])
        elif function.startswith("msgspec."):
            yield from (ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "type")


def resolves(kind: Any) -> bool:
    """Whether msgspec still has to resolve a type."""
    looked_up: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "get_class_annotations":
            looked_up.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        msgspec.json.Decoder(kind)
    finally:
        sys.setprofile(None)
    return bool(looked_up)


def named(tree: ast.AST, module: Any) -> dict[str, Any]:
    """The names of a module, with those that its functions import."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("trivium"):
            origin = importlib.import_module(str(node.module))
            names |= {alias.name: getattr(origin, alias.name, None) for alias in node.names}
    return names | vars(module)


def unresolved() -> Iterator[str]:
    """Types that a module of Trivium reads and that are not resolved once it is imported."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        # Parameters: see RECORDS; the values of OTLP and the other fields of a calibrator are no records.
        wanted = set(types_read(tree)) - {"kind", "record", "read_as", "_PLAIN[tag]"}
        if wanted:
            name = ".".join(("trivium", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
                ".__init__"
            )
            scope = named(tree, importlib.import_module(name))
            yield from (f"{name}: {kind}" for kind in sorted(wanted) if resolves(eval(kind, scope)))
    for name, record in RECORDS:
        if resolves(getattr(importlib.import_module(name), record)):
            yield f"{name}: {record}"


def test_what_is_read_is_resolved_on_import() -> None:
    script = "from tests.test_resolved import unresolved; print(*unresolved(), sep='\\n', end='')"
    command = [sys.executable, "-c", script]  # a process of its own: the tests before this one read records
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""


def test_a_record_that_is_not_resolved_is_noticed() -> None:
    class Part(msgspec.Struct):
        text: str

    class Whole(msgspec.Struct):
        part: Part

    assert resolves(Whole)
    assert not resolves(Whole)

    class Ready(msgspec.Struct):
        part: Part

    assert not resolves(resolved(Ready))
