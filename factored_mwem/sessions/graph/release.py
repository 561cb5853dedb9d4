"""A private graph in, a synthetic one out: every pair gets noise once, and everything else is computed from
that.

Source: Gupta, Roth and Ullman 2012, section 6: randomised response, then the program of Lemma 6.2 or its
spectral form, then rounding (Remark 6.3).
"""

from __future__ import annotations

import logging
import secrets
from functools import partial
from typing import Any, Unpack

import numpy as np

from factored_mwem.kernels.cuts import pack, unpack
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.privacy.other.edges import AllEdges
from factored_mwem.request.promise import Terms
from factored_mwem.sessions.graph.linear_program import solve_cuts
from factored_mwem.sessions.graph.request import GraphOptions, GraphRequest, Method
from factored_mwem.sessions.graph.result import GraphRelease
from factored_mwem.sessions.graph.spectral import denoise

log = logging.getLogger("factored_mwem")


def release_graph(
    edges: Any, vertices: Any, policy: Terms | None = None, **options: Unpack[GraphOptions]
) -> GraphRelease:
    """A synthetic graph for a private one, under differential privacy of its edges.

    Private input: `edges`, a path or data frame with a column for each end, a networkx graph, or an array of
    two columns. `vertices`, public: their number, their names, or a file of names; lines that name others, or
    one vertex twice, are left out. An edge counts once, however many lines name it and in whatever order.
    `options`: `columns`, the two of the ends; `method`, "spectral" (the default), "lp" or "noise", by which
    no graph is made; `seed` of the drawing alone; epsilon, delta (0 by default), neighbours, contributions
    (the most edges of one person) and privacy_id. Books and errors: as of `release`.

    >>> import numpy as np
    >>> from factored_mwem import release_graph
    >>> ring = np.array([[i, (i + 1) % 12] for i in range(12)])
    >>> synthetic = release_graph(ring, 12, epsilon=2.0)
    >>> synthetic.to_arrow().column_names, synthetic.cut([0, 1, 2]).pairs
    (['from', 'to'], 27)
    """
    choices: dict[str, Any] = dict(options)
    booking = Booking.of(choices)
    request = GraphRequest.of(edges, vertices, policy, many=False, **choices)
    return request.spending.made(booking, partial(make_graph, request))


def make_graph(request: GraphRequest, run: Run) -> GraphRelease:
    """Make a release within a run; the caller writes the files and calls `run.finish`."""
    seed = secrets.randbits(64) if request.seed is None else request.seed
    spent = request.spending.begin(run, seed=seed)
    session = spent.session
    measured = session.measure(request.sealed(), AllEdges.PAIRS, cost=session.left)  # - private in this line
    spent.drawn()
    noisy = _narrow(measured.noisy)
    weights = _weights(noisy, len(request.vertices), measured.scale.stddev, request.method)
    stated = spent.statement(request.assumptions(spent))
    log.info("noised %d pairs of %d vertices", request.vertices.pairs, len(request.vertices))
    return GraphRelease(
        request.vertices, request.ends, noisy, measured.scale, weights, spent.pinned["seed"], stated
    )


def _narrow(noisy: np.ndarray) -> np.ndarray:
    """The same numbers with half the bytes, if they fit."""
    fits = len(noisy) == 0 or int(np.abs(noisy).max()) < 2**31
    return noisy.astype(np.int32) if fits else noisy


def _weights(noisy: np.ndarray, vertices: int, stddev: float, method: Method) -> np.ndarray | None:
    """float32[pair] in [0, 1]: what a synthetic graph is drawn from; public in, public out."""
    if method == "noise":
        return None
    matrix = np.empty((vertices, vertices), dtype=np.float64 if method == "lp" else np.float32)
    unpack(noisy, vertices, matrix)
    near = solve_cuts(matrix, normalised=True).matrix if method == "lp" else denoise(matrix, stddev).matrix
    weights = np.empty(len(noisy), dtype=np.float32)
    pack(near, weights)
    return weights
