"""Clients, scheduling, rate limiting and caching of judge requests."""
