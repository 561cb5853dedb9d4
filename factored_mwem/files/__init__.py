"""Files as the program leaves them: whole or not at all, and named points where a test may end a run."""
