"""Logs of Inspect AI, as plain records: what suites, attempts and traces are made of."""
