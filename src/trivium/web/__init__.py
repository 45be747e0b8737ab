"""The server: OTLP intake, JSON API, health and metrics."""
