"""How records show themselves to a person at a prompt or in a notebook.

Records know nothing of rendering; this table names what renders them, imported when it is first needed.
"""

import html
from importlib import import_module
from typing import Any

RENDERABLES = {
    "Comparison": "trivium.reports.comparing.table:ComparisonTable",
    "Summary": "trivium.reports.terminal:SummaryTable",
}
"""Rich renderable of each kind of record."""


class Shown:
    """Mixed into a record: a table for ``print``, Rich, IPython and notebooks."""

    __slots__ = ()

    def __rich__(self) -> Any:
        module, _, name = RENDERABLES[type(self).__name__].partition(":")
        return getattr(import_module(module), name)(self)

    def __str__(self) -> str:
        as_text = import_module("trivium.reports.as_text").as_text
        text: str = as_text(self.__rich__())
        return text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        text = str(self)
        return {"text/plain": text, "text/html": f"<pre>{html.escape(text)}</pre>"}
