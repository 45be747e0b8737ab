"""Disagreements as a table, as Markdown, and as a part of the run's page."""
