"""A run's data for other programs: rows, and the formats they are written in."""
