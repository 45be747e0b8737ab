"""One self-contained page: what was found, drawn and explained."""

import base64
from collections.abc import Mapping
from typing import Any

from trivium.reports.as_text import as_text
from trivium.reports.charts import load_altair
from trivium.reports.html.document import environment, policy
from trivium.reports.trust.curve_chart import MOST_VARIANTS, describe_curves
from trivium.reports.trust.curve_table import CurveTable

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;color:#1f2937;background:#fff;margin:2rem auto;max-width:62rem}
body{padding:0 1rem}
pre{overflow-x:auto;background:#f3f4f6;padding:1rem;border-radius:6px;font-size:13px;line-height:1.35}
figure{margin:2rem 0} img{max-width:100%;height:auto}
dt{font-weight:600} dd{margin:0 0 .6rem 0}
"""

COLUMNS = 100


def curve_page(artifact: Mapping[str, Any]) -> str:
    """The page; it fetches nothing, runs nothing and shows texts of the items as they stand.

    Args:
        artifact: As ``curve_artifact`` makes it with ``drawn=True``.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    load_altair()
    import vl_convert

    names = list(artifact["confidence_variants"])
    pictures = []
    for name in names[:MOST_VARIANTS]:
        svg = vl_convert.vegalite_to_svg(describe_curves(artifact, [name]))
        pictures.append((name, "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()))
    return (
        environment()
        .get_template("risk_coverage.html")
        .render(
            policy=policy(STYLE),
            style=STYLE,
            pictures=pictures,
            left_out=max(0, len(names) - MOST_VARIANTS),
            table=as_text(CurveTable(artifact), width=COLUMNS),
        )
    )
