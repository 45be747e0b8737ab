"""HTML that notebooks show for records, for light and dark pages, without scripts or style sheets."""
