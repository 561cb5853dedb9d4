"""A private graph in, a synthetic one out: noise on every pair, once, and everything else made of that.

Source: Gupta, Roth and Ullman 2012, section 6: randomised response, then the program of Lemma 6.2 or its
spectral form, then rounding (Remark 6.3).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np

from factored_mwem.kernels.cuts import pack, unpack
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.pipeline.spending import Spending
from factored_mwem.privacy.other.edges import AllEdges
from factored_mwem.request.promise import BookedTerms, Terms
from factored_mwem.sessions.graph.linear_program import solve_cuts
from factored_mwem.sessions.graph.request import GraphRequest, Method
from factored_mwem.sessions.graph.result import GraphRelease
from factored_mwem.sessions.graph.spectral import denoise

log = logging.getLogger("factored_mwem")


def release_graph(
    edges: Any,
    vertices: Any,
    policy: Terms | None = None,
    *,
    columns: Sequence[str] | None = None,
    method: Method | None = None,
    seed: int | None = None,
    **choices: Unpack[BookedTerms],
) -> GraphRelease:
    """A synthetic graph for a private one, under differential privacy of its edges.

    Private input: `edges`, a path or data frame with a column for each end, a networkx graph, or an array of
    two columns. `vertices`, public: their number, their names, or a file of names; lines that name others, or
    one vertex twice, are left out. An edge counts once, however many lines name it and in whatever order.
    `choices` are epsilon, delta (0 by default), neighbours, contributions (the most edges of one person) and
    privacy_id. Books and errors: as of `release`.

    >>> import numpy as np
    >>> from factored_mwem import release_graph
    >>> ring = np.array([[i, (i + 1) % 12] for i in range(12)])
    >>> made = release_graph(ring, 12, epsilon=2.0)
    >>> made.to_arrow().column_names, made.cut([0, 1, 2]).pairs
    (['from', 'to'], 27)
    """
    given: dict[str, Any] = dict(choices)
    booking = Booking.of(given)
    request = GraphRequest.of(edges, vertices, policy, columns=columns, method=method, seed=seed, **given)
    return spending_of(request).made(booking, partial(make_graph, request))


def spending_of(request: GraphRequest) -> Spending:
    """The release as the ledger enters it."""
    return request.spending("graph", method=request.method, sample_seed=request.seed)


def make_graph(request: GraphRequest, run: Run) -> GraphRelease:
    """Make a release within a run; the caller writes the files and calls `run.finish`."""
    seed = secrets.randbits(64) if request.seed is None else request.seed
    spent = spending_of(request).begin(run, seed=seed)
    session = spent.session
    found = session.measure(request.sealed(), AllEdges.PAIRS, cost=session.left)  # ---- private in this line
    spent.drawn()
    noisy = _narrow(found.noisy)
    weights = _weights(noisy, len(request.vertices), found.scale.stddev, request.method)
    stated = spent.statement(request.assumptions(spent))
    log.info("noised %d pairs of %d vertices", request.vertices.pairs, len(request.vertices))
    return GraphRelease(
        request.vertices, request.ends, noisy, found.scale, weights, spent.pinned["seed"], stated
    )


def _narrow(noisy: np.ndarray) -> np.ndarray:
    """The same numbers in half the memory, where they fit."""
    fits = len(noisy) == 0 or int(np.abs(noisy).max()) < 2**31
    return noisy.astype(np.int32) if fits else noisy


def _weights(noisy: np.ndarray, vertices: int, stddev: float, method: Method) -> np.ndarray | None:
    """float32[pair] in [0, 1]: what a synthetic graph is drawn from; public in, public out."""
    if method == "noise":
        return None
    matrix = np.empty((vertices, vertices), dtype=np.float64 if method == "lp" else np.float32)
    unpack(noisy, vertices, matrix)
    made = solve_cuts(matrix, normalised=True).matrix if method == "lp" else denoise(matrix, stddev).matrix
    found = np.empty(len(noisy), dtype=np.float32)
    pack(made, found)
    return found
