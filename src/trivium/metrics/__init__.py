"""Metrics in three tiers (text, judge, trace), their registry, and the composite of an attempt."""
