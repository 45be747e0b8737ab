"""The names of what a run holds."""

from typing import Literal

What = Literal["scores", "attempts", "summary", "judgements", "items", "labels", "review"]
"""One row a score, an attempt, a metric of the summary, a judgement, a joined item, a label, a judgement
that goes to people."""
