"""How far off a release is, computed from the real table. NOT PRIVATE."""
