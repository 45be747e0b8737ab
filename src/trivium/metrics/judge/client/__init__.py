"""Clients, scheduling, rate limiting and caching of judge requests."""

__all__: list[str] = []
