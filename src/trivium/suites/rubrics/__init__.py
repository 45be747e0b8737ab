"""Built-in rubrics, and rubrics that users write."""

__all__: list[str] = []
