"""Reads and writes the files that hold suites and cases: documents, JSON lines and tables."""
