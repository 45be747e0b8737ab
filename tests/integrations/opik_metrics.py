"""Metrics as people write them for Opik, whose import takes seconds: a fixture makes it, when a test asks."""

from opik.evaluation.metrics import Contains, Equals, IsJson, LevenshteinRatio, base_metric, score_result

__all__ = ["Contains", "Equals", "IsJson", "LevenshteinRatio", "Own", "scored"]


class Own(base_metric.BaseMetric):
    def __init__(self, *results):
        super().__init__(name="own", track=False)
        self.results = list(results)
        self.seen = []

    def score(self, input, context=None, **ignored):
        self.seen.append((input, context, ignored))
        return self.results if len(self.results) != 1 else self.results[0]


def scored(value, **fields):
    return score_result.ScoreResult(name=fields.pop("name", "own"), value=value, **fields)
