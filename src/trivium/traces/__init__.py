"""Traces of agent runs: their data model, normalisation, recording, readers and writers."""
