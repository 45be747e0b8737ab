"""What the trust commands found, as tables, charts and a page."""
