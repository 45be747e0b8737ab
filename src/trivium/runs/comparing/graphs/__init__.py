"""Comparing what two runs did, edge by edge of their graphs (docs/compare-runs.md)."""
