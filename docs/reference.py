"""Writes docs/reference/: one page a room, from the docstrings of what it offers (``make docs``)."""

import ast
import inspect
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import trivium

OUT = Path(__file__).parent / "reference"
ROOMS = ("suites", "traces", "agents", "metrics", "runs", "store", "trust", "reports")


def main() -> None:
    """Write every page anew."""
    OUT.mkdir(exist_ok=True)
    pages = {"trivium": _page("trivium", [trivium])}
    for room in ROOMS:
        package = import_module(f"trivium.{room}")
        names = [found.name for found in walk_packages(package.__path__, f"{package.__name__}.")]
        modules = [import_module(name) for name in names if ".migrations." not in name]
        pages[room] = _page(f"trivium.{room}", [package, *modules])
    for name, text in pages.items():
        (OUT / f"{name}.md").write_text(text, encoding="utf-8")
    print(f"wrote {len(pages)} pages to {OUT}")


def _page(title: str, modules: list[ModuleType]) -> str:
    parts = [f"# {title}\n\nGenerated from the docstrings by `make docs`."]
    for module in modules:
        offered = [(name, thing) for name, thing in _offered(module) if inspect.getdoc(thing)]
        if offered:
            parts.append(f"## {module.__name__}\n\n{inspect.getdoc(module) or ''}")
            parts += [_entry(name, thing) for name, thing in offered]
    return "\n\n".join(parts) + "\n"


def _offered(module: ModuleType) -> list[tuple[str, Any]]:
    """The public classes and functions of a module, in the order of its source."""
    if module is trivium:
        own = [name for name in trivium.__all__ if name not in {"__version__", "trust"}]
        return [(name, getattr(trivium, name)) for name in own]
    tree = ast.parse(inspect.getsource(module))
    defined = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [(name, getattr(module, name)) for name in defined if not name.startswith("_")]


def _entry(name: str, thing: Any) -> str:
    parts = [f"### {_signed(name, thing)}", _code(inspect.getdoc(thing) or "")]
    if inspect.isclass(thing):
        for attribute, method in vars(thing).items():
            function = getattr(method, "__func__", getattr(method, "fget", method))
            if not attribute.startswith("_") and inspect.isfunction(function) and inspect.getdoc(function):
                parts.append(f"#### {_signed(f'{name}.{attribute}', function)}")
                parts.append(_code(inspect.getdoc(function) or ""))
    return "\n\n".join(parts)


def _signed(name: str, thing: Any) -> str:
    try:
        return f"`{name}{inspect.signature(thing)}`"
    except (TypeError, ValueError):
        return f"`{name}`"


def _code(text: str) -> str:
    return f"```\n{text}\n```"


if __name__ == "__main__":
    main()
