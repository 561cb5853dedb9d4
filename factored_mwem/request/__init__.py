"""What is asked of a release, and at what price."""
