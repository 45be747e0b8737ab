"""Evaluates suites: asks agents, scores, stores and summarises."""
