"""Reports of the trust commands: tables, charts and a page."""
