"""A Model Context Protocol server, so that a coding agent can evaluate an agent and read the answers."""
