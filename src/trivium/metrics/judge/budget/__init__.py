"""Budget."""
