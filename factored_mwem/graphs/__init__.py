"""Graphs whose edges are private."""
