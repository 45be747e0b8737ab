"""Records in a notebook: pieces of HTML for light and dark pages, without scripts or style sheets."""
