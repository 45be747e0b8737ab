"""Pairs that a judge compared, as a table and as Markdown."""
