"""Graphs whose edges are private: a synthetic graph, noisy weights of all pairs, and cuts.

release_graph, GraphRelease     a synthetic graph from a private one, and what its noise says of any cut
cuts, CutSession                cuts one by one, by a hypothesis that learns what it did not know
Cut, RankOne, Vertices          what is asked, of which public vertex set
FriezeKannan, PairWeights       hypotheses that are updated by one cut after the other
CutSum                          a weighted graph as a sum of cuts
tails                           how far noise moves cuts: Theorem 6.5 and Lemma 6.1 of the paper
norms, linear_program, spectral, rounding       from noisy weights to a simple graph

Source: Gupta, Roth and Ullman 2012, Iterative Constructions and Private Data Release, sections 5 to 7.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from factored_mwem.domain.vertices import Vertices
    from factored_mwem.graphs.asking import CutSession, ToldCut, cuts
    from factored_mwem.graphs.cut_sum import CutSum
    from factored_mwem.graphs.frieze_kannan import FriezeKannan
    from factored_mwem.graphs.pair_weights import PairWeights
    from factored_mwem.graphs.release import release_graph
    from factored_mwem.graphs.result import CutAnswer, GraphRelease
    from factored_mwem.workload.cuts import Cut, RankOne

_HOME = {
    "Cut": "workload.cuts",
    "CutAnswer": "graphs.result",
    "CutSession": "graphs.asking",
    "CutSum": "graphs.cut_sum",
    "FriezeKannan": "graphs.frieze_kannan",
    "GraphRelease": "graphs.result",
    "PairWeights": "graphs.pair_weights",
    "RankOne": "workload.cuts",
    "ToldCut": "graphs.asking",
    "Vertices": "domain.vertices",
    "cuts": "graphs.asking",
    "release_graph": "graphs.release",
}
__all__ = [
    "Cut", "CutAnswer", "CutSession", "CutSum", "FriezeKannan", "GraphRelease", "PairWeights", "RankOne",
    "ToldCut", "Vertices", "cuts", "release_graph",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a name at first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'factored_mwem.graphs' has no attribute {name!r}")
    return getattr(import_module(f"factored_mwem.{_HOME[name]}"), name)
