"""Trivium's metrics in other tools and their metrics in Trivium; one module per tool, imported when used."""
