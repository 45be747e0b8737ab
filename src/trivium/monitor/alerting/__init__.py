"""Alerts: when they open and are resolved, where they come from, and how they are sent."""
