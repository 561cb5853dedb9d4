"""Judges that nobody here wrote, each in its own environment, on what the program releases."""
