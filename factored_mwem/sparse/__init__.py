"""Queries of a few keys over a universe that may have no end."""

from factored_mwem.sparse.printed import Printed

__all__ = ["Printed"]
