"""Evaluating a suite: asking, scoring, storing, summing up."""
