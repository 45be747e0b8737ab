"""``trivium label``: people's labels, asked for in a terminal, imported, exported and compared."""
