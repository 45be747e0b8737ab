"""Rubrics: what a judge is asked to look at, and how its words become scores."""
