"""Rounding: a simple graph drawn from public weights, by an independent coin for each pair (Remark 6.3).

Over all cuts at once it moves each by at most `tails.rounding_bound`, O(n^1.5): no more than the noise did.
"""

from __future__ import annotations

import numpy as np

BLOCK = 2**22
"""Pairs that are drawn together."""


def draw_edges(weights: np.ndarray, seed: int) -> np.ndarray:
    """int64[edge]: the numbers of the pairs drawn, ascending; `weights: float[pair]` in [0, 1], public."""
    rng = np.random.default_rng(seed)
    found = []
    for begin in range(0, len(weights), BLOCK):
        block = weights[begin : begin + BLOCK]
        found.append(np.flatnonzero(rng.random(len(block)) < block) + begin)
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
