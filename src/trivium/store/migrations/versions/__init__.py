"""Schema migrations, one file per revision."""

__all__: list[str] = []
