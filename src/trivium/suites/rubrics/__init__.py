"""Rubrics: what judges look at, built in or written by users."""
