"""Evaluates suites: calls agents, scores their outputs, stores the results and summarises them."""
