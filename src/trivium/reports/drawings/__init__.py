"""Traces drawn as SVG: the tool graph, the interaction graph and the timeline.

Drawings carry no colours of their own: classes that the page's style sheet colours, light and dark.
"""
