"""Schema migrations, run by Alembic."""

__all__: list[str] = []
