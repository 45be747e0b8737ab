"""Commands that run and look after a server: serve, monitor, token, backup, restore."""
