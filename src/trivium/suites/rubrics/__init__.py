"""Built-in rubrics, and rubrics that users write."""
