"""From a confidence to a probability, and how good that probability is (spec: metrics, S.10, S.11)."""
