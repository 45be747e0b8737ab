"""Answers that are kept, so that none is paid for twice."""
