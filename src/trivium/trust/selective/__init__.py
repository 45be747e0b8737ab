"""Selective prediction: what an agent gets wrong when it may abstain (spec: metrics, S.1 to S.8)."""
