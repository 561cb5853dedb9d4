"""Cells as codes and back: kinds of columns, parsing, labels, spelling."""
