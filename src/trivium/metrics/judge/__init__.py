"""Metrics that a language model scores."""
