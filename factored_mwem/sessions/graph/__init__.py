"""Graphs whose edges are private: a synthetic graph, noisy weights of all pairs, and cuts.

release_graph, GraphRelease     a synthetic graph from a private one, and what its noise says of any cut
cuts, CutSession                cuts one by one, by a hypothesis that learns what it did not know
Cut, RankOne, Vertices          what is asked, of which public vertex set
CutFriezeKannan, PairWeights    hypotheses that are updated by one cut after the other
CutSum                          a weighted graph as a sum of cuts
tails                           how far noise moves cuts: Theorem 6.5 and Lemma 6.1 of the paper
norms, linear_program, spectral from noisy weights to weights in [0, 1]

Source: Gupta, Roth and Ullman 2012, Iterative Constructions and Private Data Release, sections 5 to 7.
"""

from factored_mwem.domain.vertices import Vertices
from factored_mwem.sessions.graph.asking import CutAnswer, CutSession, cuts
from factored_mwem.sessions.graph.constructions import CutFriezeKannan, CutSum, PairWeights
from factored_mwem.sessions.graph.release import release_graph
from factored_mwem.sessions.graph.result import CutEstimate, GraphRelease
from factored_mwem.workload.cuts import Cut, RankOne

__all__ = [
    "Cut", "CutAnswer", "CutEstimate", "CutFriezeKannan", "CutSession", "CutSum", "GraphRelease",
    "PairWeights", "RankOne", "Vertices", "cuts", "release_graph",
]  # fmt: skip
