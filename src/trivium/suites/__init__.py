"""Cases, suites, their settings, and the files that hold them."""

__all__: list[str] = []
