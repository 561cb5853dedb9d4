"""One release, from a request to its files."""
