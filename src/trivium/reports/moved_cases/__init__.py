"""Cases that moved between two runs: both outputs side by side, with their differences marked."""
