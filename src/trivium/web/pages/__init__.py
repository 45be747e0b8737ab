"""The pages of the server, drawn on the server; scripts only replace parts of them."""

from typing import Any

from trivium.web.pages import (
    case,
    comparison,
    labels,
    login,
    monitors,
    new_case,
    people,
    queues,
    run,
    runs,
    search,
    trust,
)
from trivium.web.pages.site import Site

__all__ = ["Site", "page_routes"]

_MODULES = (runs, run, case, comparison, queues, labels, people, trust, monitors, new_case, search, login)
"""Each has ``routes(site)``."""


def page_routes(site: Site) -> list[Any]:
    """The routes of all pages and of what they are made with."""
    return [*site.routes(), *(route for module in _MODULES for route in module.routes(site))]
