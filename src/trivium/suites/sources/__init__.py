"""Foreign data that makes a suite: one file a format, one line in the registry."""
