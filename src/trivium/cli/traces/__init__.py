"""The commands of ``trivium traces``."""
