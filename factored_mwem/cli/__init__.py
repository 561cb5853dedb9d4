"""The command line `fmwem`."""
