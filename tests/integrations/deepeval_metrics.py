"""Metrics of DeepEval, whose import takes seconds: a fixture makes it, when a test asks."""

from deepeval.metrics import BaseMetric, ExactMatchMetric, PatternMatchMetric, ToolCorrectnessMetric

__all__ = ["ExactMatchMetric", "Length", "PatternMatchMetric", "ToolCorrectnessMetric"]


class Length(BaseMetric):
    """A metric of one's own, which remembers what it saw."""

    def __init__(self, worst=10):
        self.threshold, self.worst = 0.5, worst

    def measure(self, test_case):
        self.score = len(test_case.actual_output) / self.worst
        self.reason = (
            f"{test_case.input}|{test_case.expected_output}|{test_case.context}|{test_case.completion_time}"
        )
        self.success = self.score >= self.threshold
        return self.score

    async def a_measure(self, test_case):
        return self.measure(test_case)
