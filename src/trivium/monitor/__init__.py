"""Watches production traffic: samples interactions, scores them, and raises alerts."""
