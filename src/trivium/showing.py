"""How records show themselves to a person at a prompt or in a notebook.

Records know nothing of rendering; these tables name what renders them, imported when it is first needed.
"""

from importlib import import_module
from typing import Any

RENDERABLES = {
    "Comparison": "trivium.reports.comparing.table:ComparisonTable",
    "Disagreements": "trivium.reports.disagreeing.table:DisagreementTable",
    "PairComparison": "trivium.reports.pairs.table:PairTable",
    "Summary": "trivium.reports.terminal:SummaryTable",
}
"""Rich renderable of each kind of record that is a table in a terminal."""

FRAGMENTS = {
    "Agreement": "trivium.reports.notebook.measures:agreement_fragment",
    "Calibrator": "trivium.reports.notebook.measures:calibrator_fragment",
    "Certificate": "trivium.reports.notebook.measures:certificate_fragment",
    "Comparison": "trivium.reports.notebook.comparison:comparison_fragment",
    "Curve": "trivium.reports.notebook.curve:curve_fragment",
    "Run": "trivium.reports.notebook.summary:run_fragment",
    "Summary": "trivium.reports.notebook.summary:summary_fragment",
}
"""What draws each kind of record in a notebook; the others show the table of the terminal there."""


class Drawn:
    """Mixed into a record: a piece of HTML for notebooks, without script and without a style sheet."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        drawn: str = _named(FRAGMENTS, self)(self)
        return drawn


class Shown:
    """Mixed into a record: a table for ``print``, Rich and IPython, and a piece of HTML for notebooks."""

    __slots__ = ()

    def __rich__(self) -> Any:
        return _named(RENDERABLES, self)(self)

    def __str__(self) -> str:
        as_text = import_module("trivium.reports.as_text").as_text
        text: str = as_text(self.__rich__())
        return text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        text = str(self)
        if type(self).__name__ in FRAGMENTS:
            return {"text/plain": text, "text/html": _named(FRAGMENTS, self)(self)}
        from html import escape

        return {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}


def _named(table: dict[str, str], record: object) -> Any:
    """What a table names for a record, by the name of its class or of one that it derives from."""
    name = next(cls.__name__ for cls in type(record).__mro__ if cls.__name__ in table)
    module, _, function = table[name].partition(":")
    return getattr(import_module(module), function)
