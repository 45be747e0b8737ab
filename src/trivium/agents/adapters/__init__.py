"""One module for each kind of agent that Trivium can call."""
