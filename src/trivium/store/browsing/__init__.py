"""Queries of the pages that list and search what a store holds."""
