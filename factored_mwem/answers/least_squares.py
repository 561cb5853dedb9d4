"""Least squares: queries answered from the noisy answers alone, with the variance of their errors.

A query is *measured* if a weighted sum of noisy answers equals it for every possible table, up to the noise.
The best such sum is generalised least squares (Aitken 1936), which weighs every answer by its precision: it
is unbiased, and does not depend on the model. Answers that hold more attributes than the query are summed
over them first, which multiplies their variance by the cells that are summed; cells' noises stay independent.
"""

from __future__ import annotations

import numpy as np

from factored_mwem.answers.linear import Linear
from factored_mwem.answers.orthogonal import best
from factored_mwem.answers.projections import Noisy
from factored_mwem.answers.refined import refined
from factored_mwem.answers.terms import QueryTerms


def least_squares(noisy: Noisy, terms: QueryTerms) -> Linear | None:
    """The queries from noisy answers alone, or None if these do not determine them all."""
    terms = without_constants(terms)
    about = noisy.about(terms.support)
    closed = best(noisy, terms, about)
    if closed is None:
        return None
    if noisy.residuals or all(v in closed.view for i in about for v in _of_support(noisy, i, terms)):
        return closed
    mixed = refined(noisy, terms, about)
    if mixed is None:
        return closed
    each = np.arange(terms.count)
    return min((closed, mixed), key=lambda solution: float(solution.covariance(each, each).sum()))


def _of_support(noisy: Noisy, index: int, terms: QueryTerms) -> list[int]:
    """The variables at which a measurement holds attributes of the support."""
    variables = (noisy.variable(index, a) for a in terms.support)
    return [v for v in variables if v is not None]


def without_constants(terms: QueryTerms) -> QueryTerms:
    """The same queries without attributes on which none puts a condition; constants go elsewhere."""
    scale, kept = np.ones(terms.count), []
    for j, own in enumerate(terms.weights):
        if (own == own[:, :1]).all():
            scale = scale * own[:, 0]
        else:
            kept.append(j)
    if len(kept) == len(terms.support) or ((scale != 1).any() and not kept):
        return terms
    weights = tuple(
        terms.weights[j] * scale[:, None] if n == 0 else terms.weights[j] for n, j in enumerate(kept)
    )
    return QueryTerms(tuple(terms.support[j] for j in kept), weights, terms.count)
