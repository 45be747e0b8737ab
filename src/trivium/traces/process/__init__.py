"""Analyses how agents spent their time and which work they repeated (docs/process.md)."""
