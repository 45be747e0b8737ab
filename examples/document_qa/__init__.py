"""Two versions of an agent answer sixty questions about twelve documents."""
