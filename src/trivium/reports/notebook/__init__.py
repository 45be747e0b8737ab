"""HTML of records in notebooks, for light and dark pages, without scripts and style sheets."""

__all__: list[str] = []
