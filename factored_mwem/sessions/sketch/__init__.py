"""Queries over a few keys of an infinite universe.

    sketch, SketchRequest          a private key column as a released sketch (SparseProject)
    Sketch, SketchAnswer           what it says of any keys, with error bars; its file
    Printed                        SparseProject's printed parameters, as a calculator
    Lazy, Prior                    multiplicative weights that store what updates touched
    SparseFriezeKannan             sums of the queries themselves
    prior_bound                    most updates of `Prior`

The last three are constructions of the interactive framework, for queries {key: weight}. Source: Blum and
Roth 2011 (arXiv 1111.6842).
"""

from factored_mwem.sessions.online.sparse import Lazy, Prior, SparseFriezeKannan, prior_bound
from factored_mwem.sessions.sketch.build import SketchRequest, sketch
from factored_mwem.sessions.sketch.printed import Printed
from factored_mwem.sessions.sketch.released import Sketch, SketchAnswer

__all__ = [
    "Lazy",
    "Printed",
    "Prior",
    "Sketch",
    "SketchAnswer",
    "SketchRequest",
    "SparseFriezeKannan",
    "prior_bound",
    "sketch",
]
