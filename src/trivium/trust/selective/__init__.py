"""Selective prediction: the risk of an agent that may abstain (spec: metrics, S.1 to S.8)."""
