"""Single statistics of a private table."""
