"""Exports the data of a run to other programs, as rows, graphs and OpenTelemetry spans."""
