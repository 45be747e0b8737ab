"""How attempts went: for the terminal, on a case's page, and over a run."""
