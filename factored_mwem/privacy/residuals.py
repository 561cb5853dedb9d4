"""measure_residuals: what small sets of attributes add to their subsets; private counts are read here.

A subset's *residual* is the part of its marginal that no marginal over fewer of its attributes shows.
Attribute subsets are bit masks here: bit i is the i-th attribute with more than one code. Source:
ResidualPlanner (Xiao, He, Zhang, Kifer 2023, arXiv 2305.08175).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from factored_mwem.accounting.accountant import Charge, additive, scale_for
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.rows import Rows
from factored_mwem.privacy.session import NoiseScale, Session
from factored_mwem.workload.residual_basis import Transform


def over_subsets(values: Sequence[float]) -> np.ndarray:
    """float64[mask]: for every subset the product of its attributes' values."""
    found = np.ones(1)
    for value in values:
        found = np.concatenate([found, found * value])
    return found


def pairs_along(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Views of `values: float64[mask]` without and with attribute `axis`."""
    parts = values.reshape(-1, 2, 1 << axis)
    return parts[:, 0], parts[:, 1]


def sensitivity(shape: Sequence[int], weights: np.ndarray, unit: Unit, composition: Composition) -> int:
    """How far all answers, each times the `weights: int64[mask]` of its subset, move together between
    neighbours: squared L2 norm (Laplace: L1).

    A row adds a column u of the questions, for a subset of weight w of squared norm w^2 prod k (k - 1), with
    1 for two codes (of L1 norm w). Add-remove: all of a person's rows in one cell. Replace: a rows u go and b
    rows v come, at most |a u - b v| by convexity, greatest with a = b = a person's weight or with b = 0. The
    product of u and v depends only on the attributes where they differ: each puts -k in the place of k (k -
    1). The greatest distance over all such patterns is exact, and less than the sum of every subset's own
    greatest distance.
    """
    sizes, rows = [k for k in shape if k > 1], unit.weight
    gaussian = composition is Composition.ZCDP
    same = [1 if k == 2 or not gaussian else k * (k - 1) for k in sizes]
    norms = over_subsets(same) * weights.astype(np.float64) ** (2 if gaussian else 1)
    whole = norms.sum()
    if unit.neighbours is Neighbours.REPLACE:
        agree, other = norms.copy(), norms.copy()
        agree[0] = other[0] = 0.0
        apart = 2 * agree.sum()
        for i, k in enumerate(
            sizes
        ):  # u'v, pattern after pattern; under L1 two columns that differ in some sign or place are 2 apart
            alone, within = pairs_along(agree, i)
            agree = np.stack(
                [alone + within, alone - within / (1 if k == 2 else k - 1) * (gaussian or k == 2)], axis=1
            ).ravel()
            alone, within = pairs_along(other, i)
            other = np.stack([alone + within, alone + within * (k == 2)], axis=1).ravel()
        distance = apart - 2 * agree if gaussian else apart - agree - other
        whole = max(whole, float(distance.max()))
    exact = round(whole) if whole < 2**48 else math.ceil(whole * (1 + 2**-30))
    return exact * (rows**2 if gaussian else rows)


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Noisy answers, `noisy: int64[answer]` in records times the `weights: int64[mask]` of their subset, as
    in `Transform.masks` without weight 0.
    """

    order: int
    weights: np.ndarray
    noisy: np.ndarray
    scale: NoiseScale

    @property
    def stddev(self) -> float:
        """Standard deviation of an answer's noise."""
        return self.scale.stddev


def measure_residuals(
    session: Session,
    rows: PrivateRows,
    shape: Sequence[int],
    order: int,
    weights: np.ndarray,
    *,
    cost: Fraction,
) -> Residuals:
    """All weighted residuals as one integer vector, with discrete noise of one scale on every answer. Cost:
    `cost`, one charge.

    Sensitivity: `sensitivity`, exactly the greatest over all neighbours. Answers stay below 2^62 for 2^36
    rows, so nothing wraps round.
    """
    composition = session.composition
    transform = Transform(shape, order, gaussian=composition is Composition.ZCDP)
    bound = sensitivity(shape, weights, session.unit, composition)
    mechanism = additive(composition)
    scale = scale_for(mechanism, cost, sensitivity=bound)
    per_answer = weights[transform.masks]
    contents: Rows = session._unseal(rows, Charge("measure", mechanism, rows.names, scale, bound))
    exact = transform.forward(contents.marginal(range(len(shape)))) * per_answer
    noisy = session.noise.add(exact[per_answer > 0], scale=scale)
    return Residuals(order, weights, noisy, NoiseScale(scale, composition))
