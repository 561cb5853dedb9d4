"""Queries over a few keys of an endless universe."""
