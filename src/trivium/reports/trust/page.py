"""Renders ``trivium trust curve`` as one self-contained HTML page with charts and explanations."""

import base64
from collections.abc import Mapping
from typing import Any

from trivium.display import as_text
from trivium.reports.charts import load_altair
from trivium.reports.html.page import asset, environment, policy
from trivium.reports.trust.charts import MOST_VARIANTS, describe_curves
from trivium.reports.trust.tables import CurveTable, conclusions, source_line

COLUMNS = 100


def curve_page(artifact: Mapping[str, Any]) -> str:
    """The page; it loads nothing, runs no script, and escapes the texts of the items.

    Args:
        artifact: Result of ``curve_artifact`` with ``drawn=True``.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    load_altair()
    import vl_convert
    from markupsafe import Markup

    from trivium import __version__

    style = asset("style.css")

    names = list(artifact["confidence_variants"])
    pictures = []
    for name in names[:MOST_VARIANTS]:
        svg = vl_convert.vegalite_to_svg(describe_curves(artifact, [name]))
        pictures.append((name, "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()))
    return (
        environment()
        .get_template("risk_coverage.html")
        .render(
            policy=policy(style),
            style=Markup(style),  # noqa: S704 - our own file
            version=__version__,
            sources=[source_line(each) for each in artifact["inputs"]],
            pictures=pictures,
            conclusions=[] if artifact["comparison"]["enabled"] else conclusions(artifact),
            left_out=max(0, len(names) - MOST_VARIANTS),
            table=as_text(CurveTable(artifact), width=COLUMNS),
        )
    )
