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
    "Disagreements": "trivium.reports.disagreements:describe",
    "PairComparison": "trivium.reports.pairwise:describe",
    "Run": "trivium.reports.summary:describe_run",
    "Summary": "trivium.reports.summary:describe",
}
"""Function that describes each record in blocks, for the place in which it is shown."""

ALIKE = {
    "Agreement": "trivium.reports.trust.tables:describe_agreement",
    "Calibrator": "trivium.reports.trust.tables:calibrator_blocks",
    "Certificate": "trivium.reports.trust.tables:certificate_blocks",
    "ComparisonPlan": "trivium.reports.plan:describe",
    "Curve": "trivium.reports.trust.tables:describe_curve",
    "TraceReport": "trivium.reports.trace_scores:describe",
}
"""Function that describes each record that is the same everywhere."""

PRINTED, FRAGMENT = "trivium.reports.document.terminal:Printed", "trivium.reports.document.html:fragment"
"""Writers of blocks for a terminal and for a notebook."""


class HtmlRepr:
    """Mixin of a record: HTML for notebooks, without scripts or style sheets."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        html: str = _function(FRAGMENT)(_blocks(self, "notebook"))
        return html


class RichRepr:
    """Mixin of a record: a table for ``print``, Rich and IPython, and HTML for notebooks."""

    __slots__ = ()

    def __rich__(self) -> Any:
        return _function(PRINTED)(_blocks(self, "terminal"))

    def __str__(self) -> str:
        return as_text(self.__rich__())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": _function(FRAGMENT)(_blocks(self, "notebook"))}


def _blocks(record: object, surface: str) -> Any:
    """The blocks of a record, by the function that is named for its class or a base class."""
    names = [cls.__name__ for cls in type(record).__mro__]
    for name in names:
        if name in DESCRIBED:
            return _function(DESCRIBED[name])(record, surface)
    return _function(next(ALIKE[name] for name in names if name in ALIKE))(record)


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
