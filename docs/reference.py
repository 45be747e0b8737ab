"""Writes docs/reference/ from the docstrings of the public names, those in ``__all__`` (``make docs``)."""

import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

OUT = Path(__file__).parent / "reference"

PUBLIC = {
    "trivium": "trivium",
    "trivium.trace": "trivium.traces.recording",
    "trivium.trust": "trivium.trust",
    "trivium.integrations.deepeval": "trivium.integrations.deepeval",
    "trivium.integrations.inspect_ai": "trivium.integrations.inspect_ai",
    "trivium.integrations.opik": "trivium.integrations.opik",
    "trivium.integrations.pydantic_evals": "trivium.integrations.pydantic_evals",
    "trivium.integrations.pytest": "trivium.integrations.pytest",
}
"""The modules that users import from, by the name they use; everything else is internal."""


def main() -> None:
    """Write every page anew."""
    OUT.mkdir(exist_ok=True)
    for old in OUT.glob("*.md"):
        old.unlink()
    written = pages()
    for name, text in written.items():
        (OUT / f"{name}.md").write_text(text, encoding="utf-8")
    print(f"wrote {len(written)} pages to {OUT}")


def pages() -> dict[str, str]:
    """The text of each page, by the name of its module."""
    return {name: _page(name, import_module(module)) for name, module in PUBLIC.items()}


def _page(title: str, module: ModuleType) -> str:
    parts = [f"# {title}\n\nGenerated from the docstrings by `make docs`.", inspect.getdoc(module) or ""]
    for name in sorted(module.__all__, key=str.lower):
        thing = getattr(module, name)
        if inspect.ismodule(thing):
            parts.append(f"### `{name}`\n\nA module: see [{title}.{name}]({title}.{name}.md).")
        elif not name.startswith("__"):
            parts.append(_entry(name, thing))
    return "\n\n".join(parts) + "\n"


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
