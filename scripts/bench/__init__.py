"""Measurements of the program: how accurate, how fast, and whether two checkouts of it do the same."""
