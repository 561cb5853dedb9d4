"""Backends: where private rows are, and how they are counted there. One protocol, `Datavectors`, is all that
the engine sees of rows; see datavectors.py.
"""
