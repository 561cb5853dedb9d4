"""Constructions that keep a vector, or all tables of a kind: for universes that memory holds.

Queries are `float64[element]`, weights in [0, 1]. What keeps clique trees is `interactive/factored.py`.
"""

from factored_mwem.interactive.constructions.frieze_kannan import FriezeKannan
from factored_mwem.interactive.constructions.median import Median
from factored_mwem.interactive.constructions.multiplicative_weights import MultiplicativeWeights

__all__ = ["FriezeKannan", "Median", "MultiplicativeWeights"]
