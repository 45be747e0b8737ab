"""Scores: how a judge's words become numbers."""
