"""The table of metrics that a suite may name."""

import click

from trivium.cli.outcome import print_json
from trivium.metrics.registry import CASE_FIGURES, OFF_BY_DEFAULT, PLANNING, metric_class, usable_metrics


def show_metrics(*, as_json: bool) -> int:
    """Print every metric with its tier and its first line of documentation."""
    rows = []
    for name in usable_metrics():
        if name in CASE_FIGURES:
            rows.append(
                {"metric": name, "tier": "trace", "default": True, "what": "Agreement of the repeats."}
            )
            continue
        cls = metric_class(name)
        what = (cls.__doc__ or "").strip().splitlines()[0]
        default = name not in OFF_BY_DEFAULT and (cls.tier != "judge" or name == PLANNING)
        rows.append({"metric": name, "tier": cls.tier, "default": default, "what": what})
    if as_json:
        print_json(rows)
        return 0
    width = max(len(str(row["metric"])) for row in rows)
    for row in rows:
        off = "" if row["default"] else " (off unless named)"
        click.echo(f"{row['metric']:<{width}}  {row['tier']:<6} {row['what']}{off}")
    return 0
