"""``trivium trust``: how far predictions and judges can be trusted. One file a command."""
