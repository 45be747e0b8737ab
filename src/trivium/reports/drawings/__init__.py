"""Traces drawn as SVG: tool graph, interaction graph and timeline.

Drawings contain no colours, only classes that the page's style sheet colours for light and dark modes.
"""
