"""How far off a release is: read from the real table. NOT PRIVATE."""
