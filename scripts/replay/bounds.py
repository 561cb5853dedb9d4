"""The accuracies that Gupta, Roth and Ullman prove, with their constants."""

from __future__ import annotations

import math

MW, FK, MEDIAN, RESPONSE = "multiplicative weights", "Frieze/Kannan", "median", "randomised response"
EPSILON, DELTA, BETA = 1.0, 1e-6, 0.05


def accuracy(
    records: float, elements: float, log_queries: float, *, norm: float | None = None, median: bool = False
) -> float:
    """The alpha of equation (3), in records: Corollary 4.10 for multiplicative weights and for the median,
    Corollary 5.2 where the table's `norm` is given. `log_queries`: log(2 k / beta).
    """
    each = 3000 * math.log(4 / DELTA) * log_queries / EPSILON
    if norm is not None:
        return math.sqrt(each * norm * math.sqrt(elements))
    log_k = log_queries - math.log(2 / BETA)
    root = math.sqrt(log_k * math.log(elements)) if median else 2 * math.sqrt(math.log(elements))
    return math.sqrt(each * records * root)


def cut_bounds(vertices: int, edges: float) -> dict[str, float]:
    """The errors of all cuts, in edges."""
    pairs, log_queries = vertices * (vertices - 1) / 2, vertices * math.log(4) + math.log(2 / BETA)
    return {
        MW: accuracy(edges, pairs, log_queries),
        FK: accuracy(edges, pairs, log_queries, norm=math.sqrt(edges)),
        MEDIAN: accuracy(edges, pairs, log_queries, median=True),
        RESPONSE: math.sqrt(6 * pairs * log_queries) / EPSILON,
    }
