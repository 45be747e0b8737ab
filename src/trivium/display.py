"""Mixins that give public records their Rich and HTML representations.

Records do not depend on rendering: the tables below name their renderers, which are imported on first use.
"""

from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

DESCRIBED = {
    "Comparison": "trivium.reports.comparison:describe",
    "Run": "trivium.reports.summary:describe_run",
    "Summary": "trivium.reports.summary:describe",
}
"""Function that describes each record in blocks, for any place in which it is shown."""

PRINTED, FRAGMENT = "trivium.reports.document.terminal:Printed", "trivium.reports.document.html:fragment"
"""Writers of blocks for a terminal and for a notebook."""

RENDERABLES = {
    "ComparisonPlan": "trivium.reports.plan:PlanTable",
    "Disagreements": "trivium.reports.disagreements:DisagreementTable",
    "PairComparison": "trivium.reports.pairwise:PairTable",
    "TraceReport": "trivium.reports.trace_scores:TraceScoresTable",
}
"""Rich renderable of each record with a terminal table."""

FRAGMENTS = {
    "Agreement": "trivium.reports.trust.records:describe_agreement",
    "Calibrator": "trivium.reports.trust.records:describe_calibrator",
    "Certificate": "trivium.reports.trust.records:describe_certificate",
    "Curve": "trivium.reports.trust.records:describe_curve",
}
"""Function that describes each record that is drawn in notebooks only."""


class HtmlRepr:
    """Mixin of a record: HTML for notebooks, without scripts or style sheets."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        describe = _renderer(DESCRIBED, self)
        blocks = _renderer(FRAGMENTS, self)(self) if describe is None else describe(self, "notebook")
        html: str = _function(FRAGMENT)(blocks)
        return html


class RichRepr:
    """Mixin of a record: a table for ``print``, Rich and IPython, and HTML for notebooks."""

    __slots__ = ()

    def __rich__(self) -> Any:
        if (describe := _renderer(DESCRIBED, self)) is not None:
            return _function(PRINTED)(describe(self, "terminal"))
        return _renderer(RENDERABLES, self)(self)

    def __str__(self) -> str:
        as_text = import_module("trivium.display").as_text
        text: str = as_text(self.__rich__())
        return text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        text = str(self)
        if (describe := _renderer(DESCRIBED, self)) is not None:
            return {"text/plain": text, "text/html": _function(FRAGMENT)(describe(self, "notebook"))}
        from html import escape

        return {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}


def _renderer(table: dict[str, str], record: object) -> Any:
    """Import the function that a table names for a record's class or a base class, if it names one."""
    name = next((cls.__name__ for cls in type(record).__mro__ if cls.__name__ in table), None)
    return None if name is None else _function(table[name])


def _function(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def as_text(renderable: "RenderableType", *, width: int = 80, colour: bool = False) -> str:
    """Render as a terminal would show it.

    Args:
        renderable: A record with a table, or any Rich renderable.
        width: Columns to fill.
        colour: Whether to add ANSI colours.
    """
    from rich.console import Console

    buffer = StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=colour,
        force_jupyter=False,  # inside a kernel Rich would display it instead of writing it here
        color_system="truecolor" if colour else None,
        highlight=False,
        markup=False,  # names and outputs are text, also where they have brackets
        emoji=False,
        legacy_windows=False,
    )
    console.print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
