"""A comparison as one HTML file that works offline, with a strict policy and no script."""

import os
from pathlib import Path
from typing import Any

from trivium.errors import InputError
from trivium.reports.comparing import graph_words, phrases
from trivium.reports.comparing.forest import forest
from trivium.reports.html.document import asset, environment, policy, write_whole
from trivium.reports.untrusted import one_line
from trivium.reports.wording import seconds
from trivium.runs.comparing.comparison import Comparison
from trivium.runs.comparing.graphs.change import GraphComparison

ROWS_SHOWN = 60
"""Edges, and tools and agents, on the page; the others are counted."""

_TONES = {"pass": "good", "fail": "bad", "inconclusive": "warn"}


def write_html(path: str | os.PathLike[str], comparison: Comparison) -> None:
    """Write the page.

    Args:
        path: The file; it is replaced only when the new one is complete.
        comparison: What it shows.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
        InputError: If the file cannot be written.
    """
    target = Path(path)
    page = _page(comparison)
    try:
        write_whole(target, [page.encode()])
    except OSError as error:
        raise InputError(str(target), f"cannot be written: {error.strerror or error}") from error


def _page(comparison: Comparison) -> str:
    templates = environment().overlay()
    templates.filters = templates.filters | {
        "signed": phrases.signed,
        "ends": phrases.ends,
        "interval_of": phrases.interval_of,
        "probability": phrases.probability,
        "record": phrases.record,
        "further": phrases.further,
        "became": graph_words.became,
        "edge": graph_words.edge,
        "factor": graph_words.factor,
        "factors": graph_words.factors,
        "seconds": seconds,
    }
    from markupsafe import Markup

    from trivium import __version__

    style = asset("style.css")
    return templates.get_template("comparison.html").render(
        comparison=comparison,
        paired=phrases.paired(comparison),
        outlook=phrases.outlook(comparison),
        note=phrases.note(comparison),
        figures=[(one_line(name), figure) for name, figure in comparison.metrics.items()],
        alone=[("base", comparison.only_base), ("head", comparison.only_head)],
        forest=Markup(forest(comparison)),  # noqa: S704 - names are escaped, the rest is numbers
        graphs=None if comparison.graphs is None else _graphs(comparison.graphs),
        marks=phrases.MARKS,
        tones=_TONES,
        style=Markup(style),  # noqa: S704 - our own file
        policy=policy(style),
        version=__version__,
    )


def _graphs(graphs: GraphComparison) -> dict[str, Any]:
    return {
        "met": graph_words.met(graphs),
        "found": graph_words.found(graphs),
        "edges": graphs.edges[:ROWS_SHOWN],
        "paces": graphs.paces[:ROWS_SHOWN],
        "left_out": graph_words.left_out(graphs, ROWS_SHOWN),
        "note": graph_words.note(graphs),
    }
