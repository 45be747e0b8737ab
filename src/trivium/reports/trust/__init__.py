"""Reports of the trust commands: tables, charts and a page."""

__all__: list[str] = []
